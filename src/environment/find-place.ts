import { createHash } from 'node:crypto';
import { debuglog } from 'node:util';
import { wrongEnvironment } from './integer';
import { KUBERNETES } from './kubernetes';
import { OPEN_MPI, PMI, PMIX } from './mpi';
import type { Place, Scheduler } from './scheduler';
import { SLURM } from './slurm';

/** A {@link Place}, and the scheduler that chose it. */
export interface FoundPlace extends Place {
  readonly scheduler: Scheduler;
  /** Undefined if the scheduler does not distinguish this run from others. */
  readonly masterPort: number | undefined;
}

/**
 * The innermost first: `mpirun` is run in a job of Slurm, and either in a pod. Slurm sets the variables of PMI and PMIx
 * too, but its own say more. A task that `mpiexec` started has MPI_LOCALRANKID, others that speak PMI do not.
 */
const INNERMOST_FIRST: readonly Scheduler[] = [
  OPEN_MPI,
  { ...PMI, placeOf: env => (env['MPI_LOCALRANKID'] ? PMI.placeOf(env) : undefined) },
  SLURM,
  PMI,
  PMIX,
  KUBERNETES,
];

const debug = debuglog('gradring');

/**
 * The place that a scheduler has given to this process. Undefined if none has. If there are variables of two, the
 * innermost counts.
 *
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if the scheduler's variables do not say the place.
 */
export function findPlace(env: NodeJS.ProcessEnv): FoundPlace | undefined {
  for (const [i, scheduler] of INNERMOST_FIRST.entries()) {
    const place = scheduler.placeOf(env);
    if (place === undefined) continue;
    const outer = INNERMOST_FIRST.slice(i + 1).filter(other => other.name !== scheduler.name && isThere(other, env));
    const others = outer.map(({ name }) => name).join(', ');
    debug('rank %d of %d, by %s%s', place.rank, place.worldSize, scheduler.name, others && `, not by ${others}`);
    return { ...place, scheduler, masterPort: place.runId === '' ? undefined : portOf(place.runId) };
  }
  return undefined;
}

/** The error for ranks on several hosts whose scheduler does not say which of them is the first one's. */
export function unknownMaster({ scheduler, worldSize }: FoundPlace): Error {
  const { name, passing } = scheduler;
  return wrongEnvironment(
    `${name} has started ${worldSize} processes, but does not say on which host the first one runs. Give all of them its name: ${passing('MASTER_ADDR')}`,
  );
}

function isThere(scheduler: Scheduler, env: NodeJS.ProcessEnv): boolean {
  try {
    return scheduler.placeOf(env) !== undefined;
  } catch {
    return true;
  }
}

/** Runs that share a host should not share a port. Below those that systems give to clients. */
function portOf(runId: string): number {
  return 20_000 + (createHash('sha256').update(runId).digest().readUInt32LE() % 10_000);
}
