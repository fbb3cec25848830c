import { LONGEST_NAME, printable } from '../printable';
import { isName } from '../shape';
import { debug, findPlace, type FoundPlace, LOOPBACK, portOf, schedulerAround } from './find-place';
import { KUBERNETES } from './kubernetes';
import { isLinkLocal, withoutBrackets } from './network';
import { slurmJobAround } from './slurm';
import { MAX_WORLD_SIZE, readInteger, readMasterPort, wrongEnvironment } from './variables';

/** The place of a process among its peers, as torchrun and `gradring run` set it in environment variables. */
export interface RankEnvironment {
  /** 0 … worldSize − 1; `RANK`. */
  readonly rank: number;
  /** `WORLD_SIZE`. */
  readonly worldSize: number;
  /** The rank among the processes of this host; `LOCAL_RANK`. */
  readonly localRank: number;
  /** Host name or address where rank 0 holds the rendezvous; `MASTER_ADDR`. */
  readonly masterAddr: string;
  /** Its TCP port; `MASTER_PORT`. */
  readonly masterPort: number;
  /** Distinguishes this run from others that might meet at the same port; `GRADRING_RUN_ID`. */
  readonly runId: string;
  /** The secret that only the ranks of this run know: 64 hexadecimal digits; `GRADRING_RUN_TOKEN`. */
  readonly runToken: string | undefined;
  /**
   * Set in an elastic run, in which the launcher holds the rendezvous and the ring continues when ranks are lost:
   * `member`, or `newcomer` for a process that replaces a lost one; `GRADRING_ELASTIC`.
   */
  readonly elastic: 'member' | 'newcomer' | undefined;
  /** The scheduler that has given this process its place, if `RANK` did not. */
  readonly scheduler: string | undefined;
  /** Whether the scheduler has started the ranks where they share a home directory, as far as is known. */
  readonly hasHome: boolean;
  /** The scheduler that started this process as one of several, though `RANK` and `WORLD_SIZE` say that it is alone. */
  readonly overruled: string | undefined;
}

/**
 * Reads and checks the variables of a rank; without `RANK`, those of the scheduler that started it. Without any of them
 * the process is alone: rank 0 of 1.
 *
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if one is not a number, is out of range, or is missing beside
 *   another.
 */
export function readRankEnvironment(env: NodeJS.ProcessEnv = process.env): RankEnvironment {
  const place = env['RANK'] ? undefined : findPlace(env);
  const { rank, worldSize } = place === undefined ? readPlace(env) : agreed(place, env);
  const { masterAddr, masterPort, runId } = place ?? meetingOf(env);
  return {
    rank,
    worldSize,
    localRank: readInteger(env, 'LOCAL_RANK', 0, MAX_WORLD_SIZE - 1, place?.localRank ?? rank),
    masterAddr: checkMaster(withoutBrackets(masterAddr)),
    masterPort,
    runId: checkRunId(runId),
    elastic: readElastic(env['GRADRING_ELASTIC'] ?? ''),
    runToken: env['GRADRING_RUN_TOKEN'] ? checkRunToken(env['GRADRING_RUN_TOKEN'], 'GRADRING_RUN_TOKEN') : undefined,
    scheduler: place?.scheduler.name,
    hasHome: place !== undefined && place.scheduler.isHomeless !== true,
    overruled: env['RANK'] && worldSize === 1 ? overruledBy(env) : undefined,
  };
}

/** Where the ranks meet if no scheduler started them. */
function meetingOf(env: NodeJS.ProcessEnv): Pick<RankEnvironment, 'masterAddr' | 'masterPort' | 'runId'> {
  const masterAddr = env['MASTER_ADDR'] || LOOPBACK;
  const runId = env['GRADRING_RUN_ID'] ?? '';
  if (env['TORCHELASTIC_USE_AGENT_STORE'] !== 'True') return { masterAddr, masterPort: readMasterPort(env), runId };
  // The agent of torchrun keeps MASTER_PORT for itself.
  const names = ['MASTER_ADDR', 'MASTER_PORT', 'TORCHELASTIC_RUN_ID', 'TORCHELASTIC_RESTART_COUNT'];
  const ofAgent = `torchrun-${names.map(name => env[name]).join('-')}`;
  return { masterAddr, masterPort: portOf(ofAgent), runId: runId || ofAgent };
}

function checkMaster(address: string): string {
  if (!isLinkLocal(address)) return address;
  throw wrongEnvironment(
    `MASTER_ADDR is '${address}', which is an address for one link only. Use an address that leads all hosts to rank 0.`,
  );
}

/** The rendezvous takes no other id. */
function checkRunId(runId: string): string {
  if (isName(runId)) return runId;
  const words = `The id of this run, '${printable(runId, 40)}', must be printable, of at most ${LONGEST_NAME} characters. Set GRADRING_RUN_ID to another one, the same on all ranks.`;
  throw wrongEnvironment(words);
}

/** See {@link RankEnvironment.overruled}. */
function overruledBy(env: NodeJS.ProcessEnv): string | undefined {
  try {
    const around = schedulerAround(env);
    if (around === undefined) return undefined;
    const { name } = around.scheduler;
    debug('rank 0 of 1, by RANK and WORLD_SIZE, not by %s', name);
    return around.place.worldSize > 1 ? name : undefined;
  } catch {
    return undefined; // the variables do not say whether there are others, which is a reason to set RANK
  }
}

/** RANK and WORLD_SIZE. */
function readPlace(env: NodeJS.ProcessEnv): { rank: number; worldSize: number } {
  const given = ['RANK', 'WORLD_SIZE'].filter(name => env[name]);
  if (given.length === 1) {
    const missing = given[0] === 'RANK' ? 'WORLD_SIZE' : 'RANK';
    throw wrongEnvironment(`${given[0]} is set but ${missing} is not; set both, or neither for a ring of one.`);
  }
  const { tasks } = given.length === 0 ? slurmJobAround(env) : { tasks: 1 };
  if (tasks > 1) {
    throw wrongEnvironment(
      `This job of Slurm has ${tasks} tasks, but this process is none of them, and would train alone. Start it with srun; or, in a job with one node, with 'gradring run'; or set RANK=0 and WORLD_SIZE=1 to train alone.`,
    );
  }
  const worldSize = readInteger(env, 'WORLD_SIZE', 1, MAX_WORLD_SIZE, 1);
  const rank = readInteger(env, 'RANK', 0, MAX_WORLD_SIZE - 1, 0);
  if (rank >= worldSize) {
    throw wrongEnvironment(`RANK is ${rank}, but WORLD_SIZE is ${worldSize}: ranks are 0 … ${worldSize - 1}.`);
  }
  return { rank, worldSize };
}

/**
 * WORLD_SIZE may be set beside a scheduler's variables, but not to another number. In a pod it is the number of pods,
 * each of which may start several processes.
 */
function agreed(place: FoundPlace, env: NodeJS.ProcessEnv): FoundPlace {
  if (place.scheduler !== KUBERNETES && KUBERNETES.isThere(env)) return place;
  const given = readInteger(env, 'WORLD_SIZE', 1, MAX_WORLD_SIZE, place.worldSize);
  if (given === place.worldSize) return place;
  throw wrongEnvironment(
    `WORLD_SIZE is ${given}, but ${place.scheduler.name} has started ${place.worldSize} processes. Set RANK too, or neither.`,
  );
}

function readElastic(text: string): RankEnvironment['elastic'] {
  if (text === '' || text === 'member' || text === 'newcomer') return text || undefined;
  throw wrongEnvironment(`GRADRING_ELASTIC is '${text}'; it must be 'member' or 'newcomer'.`);
}

/**
 * @param source Where the token is from, for the error message. The message does not show the token itself.
 * @throws GradringError `ERR_INVALID_ENVIRONMENT` if it is not 64 hexadecimal digits. A token that a person makes up
 *   can be guessed.
 */
export function checkRunToken(token: string, source: string): string {
  if (/^[0-9a-f]{64}$/i.test(token)) return token.toLowerCase();
  throw wrongEnvironment(
    `${source} is not a run token: that has 64 hexadecimal digits. Make one with 'openssl rand -hex 32'.`,
  );
}
