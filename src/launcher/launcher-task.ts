import { availableParallelism } from 'node:os';
import { findPlace, type FoundPlace, schedulerAround } from '../environment/find-place';
import { slurmJobAround } from '../environment/slurm';
import { MAX_WORLD_SIZE, readInteger, wrongEnvironment } from '../environment/variables';
import { visibleDevices } from './host-resources';

/** The options of `launch` that say where a launcher is among others. */
interface PlaceOptions {
  readonly hosts?: readonly unknown[];
  readonly nodes?: number;
  readonly nodeRank?: number;
  readonly masterAddr?: string;
  readonly masterPort?: number;
}

/**
 * The place of this launcher among several tasks of a scheduler. Undefined if there are none, or if the options say
 * another.
 *
 * @param nameOf How messages name the options.
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if there would be several rings, or one on a part of the nodes.
 */
export function taskOf(
  { hosts, nodes, nodeRank, masterAddr, masterPort }: PlaceOptions,
  nameOf: (option: 'hosts' | 'nodes' | 'nodeRank') => string,
): FoundPlace | undefined {
  if (nodes !== undefined && nodeRank !== undefined) return undefined;
  const { env } = process;
  const remedy = `give ${nameOf('nodes')} and ${nameOf('nodeRank')}`;
  const around = aroundLauncher(env, nameOf);
  const { worldSize = 1, rank, localRank = 0, localSize = 1 } = around?.place ?? {};
  if (env['RANK'] && (worldSize > 1 || Number(env['WORLD_SIZE']) > 1)) {
    throw wrongEnvironment(
      `RANK is set, so this launcher is one of several processes, and each would start a ring. Unset RANK and WORLD_SIZE; or ${remedy}.`,
    );
  }
  if (around === undefined || worldSize === 1) {
    const inJob = slurmJobAround(env).nodes;
    if (around !== undefined || inJob === 1 || (hosts ?? nodes ?? nodeRank) !== undefined) return undefined;
    throw wrongEnvironment(
      `This job of Slurm has ${inJob} nodes, but this launcher is on one of them, and would use no other. Start it with srun --ntasks-per-node=1; or ${remedy}.`,
    );
  }
  const { name } = around.scheduler;
  if (hosts !== undefined) {
    throw wrongEnvironment(
      `${name} has started ${worldSize} launchers, and each would start ranks on all of ${nameOf('hosts')}. Start one.`,
    );
  }
  if (localSize > 1 || localRank > 0) {
    throw wrongEnvironment(
      `${name} has started several launchers on this host, which would use the same cores and GPUs. Start one on each host, with as many ranks as it should have; or ${remedy}.`,
    );
  }
  if ((nodes ?? worldSize) !== worldSize || (nodeRank ?? rank) !== rank) {
    throw wrongEnvironment(`${name} says that this is launcher ${rank} of ${worldSize}; if not, ${remedy}.`);
  }
  const given = {
    ...(masterAddr && { MASTER_ADDR: masterAddr }),
    ...(masterPort && { MASTER_PORT: String(masterPort) }),
  };
  // The place is read only once: a pod's /etc/hosts may change between two readings.
  return findPlace({ ...env, ...given }, around);
}

/**
 * How many ranks the environment asks of a launcher, by torchrun's variable, which Kubeflow Trainer sets. Undefined if
 * it says nothing.
 *
 * @param gpusPerRank How many GPUs each rank gets. 0: the GPUs do not count.
 * @throws GradringError `ERR_INVALID_ENVIRONMENT`
 */
export function ranksByEnvironment(env: NodeJS.ProcessEnv, gpusPerRank: number): number | undefined {
  const text = env['PET_NPROC_PER_NODE'];
  if (!text) return undefined;
  if (/^\d+$/.test(text)) return readInteger(env, 'PET_NPROC_PER_NODE', 1, MAX_WORLD_SIZE);
  if (!['cpu', 'gpu', 'auto'].includes(text)) {
    throw wrongEnvironment(
      `PET_NPROC_PER_NODE is '${text}'; it must be a whole number from 1 to ${MAX_WORLD_SIZE}, or cpu, gpu or auto.`,
    );
  }
  const byGpus = gpusPerRank === 0 ? 0 : Math.floor(visibleDevices(env).length / gpusPerRank);
  if (text !== 'cpu' && byGpus > 0) return byGpus;
  if (text !== 'gpu') return availableParallelism();
  throw wrongEnvironment(
    `PET_NPROC_PER_NODE is 'gpu', but no rank would have a GPU on this host. Set it to a number, or to 'cpu'.`,
  );
}

function aroundLauncher(env: NodeJS.ProcessEnv, nameOf: (option: 'nodes' | 'nodeRank') => string) {
  try {
    return schedulerAround(env);
  } catch (error) {
    const remedy = `To start ranks here in any case, give ${nameOf('nodes')} 1 and ${nameOf('nodeRank')} 0.`;
    throw wrongEnvironment(`${(error as Error).message} ${remedy}`);
  }
}

/**
 * For commands that start rings of their own, on this host.
 *
 * @param command How a message names it.
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if this process is one of several, each of which would do so.
 */
export function requireOneLauncher(command: string, env: NodeJS.ProcessEnv = process.env): void {
  const started = env['RANK'] ? Number(env['WORLD_SIZE']) : schedulerAround(env)?.place.worldSize;
  if (!(started! > 1)) return;
  throw wrongEnvironment(
    `${command} starts its own ranks on this host, but this process is one of several that were started together, and each would start them. Start it once, without srun, mpirun or gradring run.`,
  );
}

/** Options of `launch` that keep the ranks of such a command on this host, also within a scheduler's job. */
export const ON_THIS_HOST = { nodes: 1, nodeRank: 0 } as const;
