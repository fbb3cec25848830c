import { createHash } from 'node:crypto';
import { debuglog } from 'node:util';
import { COPIES } from './copies';
import { KUBEFLOW } from './kubeflow';
import { KUBERNETES } from './kubernetes';
import { HYDRA, MVAPICH, OPEN_MPI, PMI, UNKNOWN } from './mpi';
import type { Place, Scheduler } from './scheduler';
import { SLURM } from './slurm';
import { DEFAULT_MASTER_PORT, readMasterPort, wrongEnvironment } from './variables';

/** A {@link Place} with all that a rank must know to meet the others. */
export interface FoundPlace extends Place {
  readonly scheduler: Scheduler;
  readonly masterAddr: string;
  readonly masterPort: number;
  /** Empty if only the address of the master distinguishes the run from others. */
  readonly runId: string;
}

/** Where ranks of one host meet. */
export const LOOPBACK = '127.0.0.1';

/**
 * The innermost first: `mpirun` runs within a job of Slurm, and both may run within a pod. Slurm sets the variables of
 * PMI and PMIx too, but its own say more.
 */
const INNERMOST_FIRST: readonly Scheduler[] = [
  ...[OPEN_MPI, MVAPICH, HYDRA, SLURM, PMI, UNKNOWN, ...COPIES],
  ...[KUBEFLOW, KUBERNETES],
];

export const debug = debuglog('gradring');

/**
 * The place that a scheduler has given to this process, with MASTER_ADDR, MASTER_PORT and GRADRING_RUN_ID if they are
 * set. Undefined if no scheduler has started it.
 *
 * @param around The result of {@link schedulerAround}, if the caller has it already.
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if the variables do not say the place, or do not say how the ranks of
 *   this run meet without those of other runs; see also {@link schedulerAround}.
 */
export function findPlace(env: NodeJS.ProcessEnv, around = schedulerAround(env)): FoundPlace | undefined {
  if (around === undefined) return undefined;
  const { scheduler, place } = around;
  const { worldSize } = place;
  const masterAddr = env['MASTER_ADDR'] || (isOnOneHost(place) ? LOOPBACK : place.masterAddr);
  if (!masterAddr) throw unknownMaster(scheduler, worldSize);
  const givenId = env['GRADRING_RUN_ID'] || undefined;
  const distinct = place.runId ?? givenId;
  if (distinct === undefined && worldSize > 1 && !env['MASTER_PORT']) throw unknownRun(scheduler, worldSize);
  const masterPort = readMasterPort(env, place.masterPort ?? (distinct ? portOf(distinct) : DEFAULT_MASTER_PORT));
  return { ...place, scheduler, masterAddr, masterPort, runId: givenId ?? place.runId ?? '' };
}

/**
 * The scheduler that started this process, and the place that it gave. If there are variables of two schedulers, the
 * innermost counts.
 *
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if the variables do not say the place; also if all processes of the
 *   innermost scheduler are on this host, but another scheduler has started it several times: then there would be
 *   several rings.
 */
export function schedulerAround(env: NodeJS.ProcessEnv): { scheduler: Scheduler; place: Place } | undefined {
  const [scheduler, ...all] = INNERMOST_FIRST.filter(each => each.isThere(env));
  if (scheduler === undefined) return undefined;
  const others = all.filter(each => each !== UNKNOWN); // known starters also set its variables
  const place = scheduler.placeOf(env);
  const { rank, worldSize } = place;
  const names = others.map(({ name }) => name).join(', ');
  debug('rank %d of %d, by %s%s', rank, worldSize, scheduler.name, names && `, not by ${names}`);
  if (isOnOneHost(place)) for (const other of others) refuseWithin(other, scheduler, place, env);
  return { scheduler, place };
}

function refuseWithin(other: Scheduler, scheduler: Scheduler, place: Place, env: NodeJS.ProcessEnv): void {
  const { rank, worldSize } = outerPlace(other, scheduler, env);
  if (worldSize === 1 || (rank === place.rank && worldSize === place.worldSize)) return;
  throw wrongEnvironment(
    `By ${scheduler.name} this is process ${place.rank} of ${place.worldSize}, but by ${other.name} it is ${rank} of ${worldSize}, so there may be several rings. Start it with one of them only; or take away the variable that does not count, with 'env -u ${scheduler.mark}' or 'env -u ${other.mark}' before the program.`,
  );
}

function outerPlace(other: Scheduler, scheduler: Scheduler, env: NodeJS.ProcessEnv): Place {
  try {
    return other.placeOf(env);
  } catch (error) {
    throw wrongEnvironment(
      `Both ${scheduler.name} and ${other.name} have started this process: ${(error as Error).message} To ignore ${other.name}, put 'env -u ${other.mark}' before the program.`,
    );
  }
}

function isOnOneHost({ worldSize, localSize }: Place): boolean {
  return worldSize === 1 || worldSize === localSize;
}

function unknownMaster({ name, passing, unknownMaster }: Scheduler, worldSize: number): Error {
  const words = `${name} has started ${worldSize} processes, but does not say on which host the first one runs. Give all of them its name: ${passing('MASTER_ADDR')}`;
  return wrongEnvironment(unknownMaster ?? words);
}

function unknownRun({ name, passing }: Scheduler, worldSize: number): Error {
  return wrongEnvironment(
    `${name} has started ${worldSize} processes, but does not say what distinguishes them from those of another run. Give all of them a port of their own, such as 29501: ${passing('MASTER_PORT')}`,
  );
}

/**
 * A port for the rendezvous of a run, so that runs that share a host have different ones. It is below the ports that
 * systems give to clients.
 */
export function portOf(runId: string): number {
  return 20_000 + (createHash('sha256').update(runId).digest().readUInt32LE() % 10_000);
}
