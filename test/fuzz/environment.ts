import { isIP } from 'node:net';
import { addressOfInterface, portRangeOf, withoutBrackets } from '../../src/environment/network';
import { resolveConnectOptions } from '../../src/rendezvous/connect-options';
import type { Entry, Target } from './fuzz';
import { mutateBytes } from './mutate-bytes';
import { isCount } from './payload-checker';
import { demand, refusalOf } from './refusal';

const TOKEN = '0123456789abcdef'.repeat(4);

type Environment = Record<string, string>;

/** The secret of the user who runs this is not touched: there is no folder for one. */
const NO_HOME = { XDG_CONFIG_HOME: __filename };

const ENVIRONMENTS: Environment[] = [
  {},
  { RANK: '3', WORLD_SIZE: '4', LOCAL_RANK: '1', MASTER_ADDR: 'node-0', MASTER_PORT: '29500', GRADRING_ENCRYPTION: 'off' },
  { RANK: '0', WORLD_SIZE: '65535', GRADRING_RUN_ID: 'run-7', GRADRING_RUN_TOKEN: TOKEN, GRADRING_ENCRYPTION: 'on' },
  { RANK: '1', WORLD_SIZE: '2', MASTER_ADDR: '10.0.0.7', GRADRING_RUN_TOKEN: TOKEN.toUpperCase(), GRADRING_TRANSPORT: 'tcp' },
  { RANK: '1', WORLD_SIZE: '2', MASTER_ADDR: '::1', GRADRING_TIMEOUT_MS: '1000', GRADRING_TIMELINE: '/tmp/x' },
  { SLURM_JOB_ID: '1', SLURM_STEP_ID: '0', SLURM_NTASKS: '3', SLURM_STEP_NUM_TASKS: '3', SLURM_PROCID: '2', SLURM_LOCALID: '0', SLURM_STEP_NUM_NODES: '2', SLURM_STEP_NODELIST: 'n[1-2],gpu7', SLURMD_NODENAME: 'n2', SLURM_TASKS_PER_NODE: '2,1', SLURM_STEP_TASKS_PER_NODE: '2,1', SLURM_GTIDS: '2', SLURM_JOB_NUM_NODES: '2', GRADRING_ENCRYPTION: 'off' },
  { OMPI_COMM_WORLD_RANK: '1', OMPI_COMM_WORLD_SIZE: '2', OMPI_COMM_WORLD_LOCAL_SIZE: '2', PMIX_RANK: '1', PMIX_NAMESPACE: 'run@1', GRADRING_ENCRYPTION: 'off' },
  { PMI_RANK: '1', PMI_SIZE: '2', MPI_LOCALRANKID: '1', MPI_LOCALNRANKS: '2', JOB_COMPLETION_INDEX: '1', MASTER_PORT: '29501', GRADRING_ENCRYPTION: 'off' },
  { RANK: '1', WORLD_SIZE: '2', MASTER_ADDR: 'localhost', TORCHELASTIC_USE_AGENT_STORE: 'True', TORCHELASTIC_RUN_ID: '7', TORCHELASTIC_RESTART_COUNT: '0' },
  { GRADRING_IFACE: 'lo', GRADRING_PORT_RANGE: '30000-30100', GRADRING_ADVERTISE_ADDR: '2001:db8::7', GRADRING_LINK_RATE: '10mbit' },
  { GRADRING_CONNECT_TIMEOUT_MS: '2147483647', GRADRING_HEARTBEAT_TIMEOUT_MS: '1', GRADRING_TRANSPORT: 'ipc' },
]; // prettier-ignore

const NAMES = [...new Set(ENVIRONMENTS.flatMap(env => Object.keys(env)))];
const VALUES = [
  '',
  '0',
  '-1',
  '1e3',
  '0x10',
  ' 7',
  '4.0',
  '65536',
  '99999999999999999999',
  'auto',
  'localhost',
  'ff'.repeat(32),
];
const TIMERS = ['timeoutMs', 'connectTimeoutMs', 'heartbeatTimeoutMs'] as const;

/** The variables that a rank finds: an input has one a line. */
export const environmentTarget: Target = {
  name: 'environment',
  seeds: () => ENVIRONMENTS.map(packed),
  mutate: (random, entry, other) => {
    if (random.below(3) === 0) return { bytes: mutateBytes(random, entry.bytes, other.bytes) };
    const env = { ...parsed(entry.bytes), ...(random.below(4) === 0 && parsed(other.bytes)) };
    const name = random.of(NAMES);
    if (random.below(6) === 0) delete env[name];
    else if (random.below(2) === 0) env[name] = random.of(VALUES);
    else
      env[name] = Buffer.from(mutateBytes(random, Buffer.from(env[name] ?? '7', 'latin1'), entry.bytes)).toString(
        'latin1',
      );
    return packed(env);
  },
  run: bytes => {
    const env = parsed(bytes);
    let options: ReturnType<typeof resolveConnectOptions>;
    try {
      options = resolveConnectOptions({}, { ...env, ...NO_HOME });
    } catch (error) {
      return { outcome: refused(error) };
    }
    demand(isCount(options.worldSize, 65_535) && isCount(options.rank, options.worldSize - 1), 'The rank is none.');
    demand(isCount(options.localRank, 65_534), 'The local rank is none.');
    demand(isCount(options.masterPort, 65_535) && options.masterPort > 0, 'The port is none.');
    for (const name of TIMERS) demand(isCount(options[name], 2 ** 31 - 1) && options[name] > 0, `${name} is none.`);
    demand(['auto', 'tcp', 'ipc'].includes(options.transport), 'The transport does not exist.');
    demand(['auto', 'on', 'off'].includes(options.encryption), 'The encryption does not exist.');
    const { iface, portRange, advertiseAddr, runToken, encryption, worldSize } = options;
    demand(iface === undefined || addressOfInterface(iface) !== undefined, 'The interface has no address.');
    const { first, last } = portRangeOf(portRange ?? '1-65535')!;
    demand(isCount(last, 65_535) && isCount(first, last) && first > 0, 'The ports are none.');
    demand(advertiseAddr === undefined || isIP(withoutBrackets(advertiseAddr)) > 0, 'The address is none.');
    demand(runToken === undefined || /^[0-9a-f]{64}$/.test(runToken), 'The token is none.');
    demand(encryption !== 'on' || worldSize === 1 || runToken !== undefined, 'Encryption is on without a token.');
    return { outcome: `accepted: ${worldSize === 1 ? 'alone' : `a ring, encryption ${encryption}`}` };
  },
};

/** What is said of a wrong token, whichever: it must not be told. */
const WRONG_TOKEN = refusalOf(errorOf({ GRADRING_RUN_TOKEN: 'x' }), 'ERR_INVALID_ENVIRONMENT');

function errorOf(env: Environment): unknown {
  try {
    return resolveConnectOptions({}, env);
  } catch (error) {
    return error;
  }
}

/** The kind of refusal. */
function refused(error: unknown): string {
  const words = refusalOf(error, 'ERR_INVALID_ENVIRONMENT');
  demand(!words.startsWith('GRADRING_RUN_TOKEN') || words === WRONG_TOKEN, 'The token is told.');
  return words
    .replace(/'[^]*'(?=; it must be|, which (strangers|others)|, so )/, "'…'")
    .replace(/^Slurm runs task \S on [^]*/, 'Slurm runs task 0 on …');
}

function packed(env: Environment): Entry {
  const lines = Object.entries(env).map(([name, value]) => `${name}=${value.replaceAll('\n', ' ')}`);
  return { bytes: Buffer.from(lines.join('\n'), 'latin1') };
}

function parsed(bytes: Uint8Array): Environment {
  const lines = Buffer.from(bytes).toString('latin1').split('\n');
  const pairs = lines.map(line => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]);
  return Object.fromEntries(pairs.filter(([name]) => NAMES.includes(name)));
}
