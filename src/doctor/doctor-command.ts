import pc from 'picocolors';
import type { Argv, CommandModule } from 'yargs';
import { NUMBER_OPTION, TEXT_OPTION, toNumber } from '../command-line';
import { addressOfInterface, MAX_PORT, NETWORK_FAULTS, portRangeOf, withoutBrackets } from '../environment/network';
import type { RankEnvironment } from '../environment/rank-environment';
import { readRankOption } from '../environment/rank-options';
import { DEFAULT_MASTER_PORT, readMasterPort } from '../environment/variables';
import { invalidArgument } from '../errors';
import { printableLines } from '../printable';
import { backendFindings } from './backends';
import { answerCheck, checkConnection, type OwnPorts } from './connection-check';
import type { Finding } from './finding';
import { addressSpaceFinding, coresFinding, memoryFinding, openFilesFinding, sharedMemoryFinding } from './limits';
import { networkFinding } from './network';
import { placeFinding, variablesFinding } from './place';
import { nodeFinding, wasmFinding, zeromqFinding } from './runtime';
import { tensorFlowFinding } from './tensorflow-copies';

/** `gradring doctor`. The exit code is 1 if there is a problem. */
export const doctorCommand: CommandModule = {
  command: 'doctor',
  describe: 'Show what this machine has for a ring, and what it lacks',
  builder: (yargs: Argv) =>
    yargs
      .usage('$0 doctor [options]\n\nShows what this machine has for a ring, and what it lacks.')
      .options({
        connect: {
          ...TEXT_OPTION,
          describe:
            'HOST[:PORT]: only tell which ports are open between this host and HOST, where doctor --listen runs',
        },
        listen: {
          type: 'boolean',
          default: false,
          describe: 'Answer one doctor --connect of another host, and end',
        },
        'port-range': {
          ...TEXT_OPTION,
          describe:
            'With --connect or --listen: the ports of the ranks of this host [default: GRADRING_PORT_RANGE, or any]',
        },
        'master-port': {
          ...NUMBER_OPTION,
          describe: 'The TCP port of the rendezvous [default: MASTER_PORT, or 29500]',
        },
        'master-addr': {
          ...TEXT_OPTION,
          describe:
            'The host of rank 0, to show which network interface a ring would use [default: MASTER_ADDR, or this host]',
        },
        json: { type: 'boolean', default: false, describe: 'Print the findings as one JSON object' },
      })
      .example('$0 doctor', 'check this machine')
      .example('$0 doctor --master-addr 10.0.0.5', 'also check the way to the host of rank 0')
      .example('$0 doctor --listen --port-range 30000-30100', 'on 10.0.0.5: let another host check the way to it')
      .example('$0 doctor --connect 10.0.0.5', 'there: tell which port, in which direction, is blocked'),
  handler: async parsed => {
    const findings = await findingsFor(parsed);
    const hasProblem = findings.some(({ verdict }) => verdict === 'problem');
    console.log(parsed['json'] ? JSON.stringify({ ok: !hasProblem, findings }) : findings.map(line).join('\n'));
    if (hasProblem) process.exitCode = 1;
  },
};

function findingsFor(parsed: Readonly<Record<string, unknown>>): Promise<Finding[]> {
  const given = (option: string) => parsed[option] as string | undefined;
  const [port, connect, isListening] = [given('master-port'), given('connect'), parsed['listen'] === true];
  const isCheck = connect !== undefined || isListening;
  if (given('port-range') !== undefined && !isCheck) throw invalidArgument('--port-range needs --connect or --listen.');
  if (given('master-addr') !== undefined && isCheck) {
    throw invalidArgument('--master-addr is for the check of this machine, without --connect and --listen.');
  }
  const masterPort = port === undefined ? undefined : toPort(port, `--master-port is '${port}'`);
  if (!isCheck) return machineFindings(given('master-addr'), masterPort);
  if (connect !== undefined && isListening) {
    throw invalidArgument('--listen is for one of two hosts, and --connect for the other.');
  }
  const own = ownPorts(masterPort, given('port-range'));
  if (connect === undefined) return answerCheck(own, () => sayListening(own));
  const [, host, hostPort] = /^(\[.*\]|[^:]*):([^:]*)$/.exec(connect) ?? [, connect];
  const otherPort = hostPort === undefined ? own.masterPort : toPort(hostPort, `--connect is '${connect}'`);
  if (!host) throw invalidArgument(`--connect is '${connect}'; it must be HOST or HOST:PORT.`);
  return checkConnection(withoutBrackets(host), otherPort, own);
}

/** How a rank of this process would listen. */
const ownOption = (name: 'iface' | 'portRange' | 'advertiseAddr') => readRankOption(name, undefined, process.env);

function ownPorts(masterPort: number | undefined, givenRange: string | undefined): OwnPorts {
  const iface = ownOption('iface');
  const fault = givenRange === undefined ? undefined : NETWORK_FAULTS.portRange(givenRange);
  if (fault !== undefined) throw invalidArgument(`--port-range is '${givenRange}'; it must be ${fault}.`);
  const range = givenRange ?? ownOption('portRange');
  return {
    address: iface === undefined ? undefined : addressOfInterface(iface),
    masterPort: masterPort ?? readMasterPort(process.env),
    range: range === undefined ? undefined : portRangeOf(range),
  };
}

async function machineFindings(givenAddr: string | undefined, givenPort: number | undefined): Promise<Finding[]> {
  const place = placeFinding();
  const known = place.details as Partial<RankEnvironment>;
  const masterAddr = withoutBrackets(givenAddr ?? known.masterAddr ?? '127.0.0.1');
  const masterPort = givenPort ?? known.masterPort ?? DEFAULT_MASTER_PORT;
  const limits = [coresFinding(), memoryFinding(), addressSpaceFinding(), openFilesFinding(), sharedMemoryFinding()];
  const variables = variablesFinding();
  return [
    ...[nodeFinding(), await zeromqFinding(), wasmFinding()],
    ...limits.filter(finding => finding !== undefined),
    place,
    ...(variables ? [variables] : []),
    await networkFinding(() => ({
      ...{ iface: ownOption('iface'), portRange: ownOption('portRange'), advertiseAddr: ownOption('advertiseAddr') },
      ...{ masterAddr, masterPort },
    })),
    tensorFlowFinding(),
    ...(await backendFindings()),
  ];
}

function sayListening({ masterPort, address }: OwnPorts): void {
  const host = address?.includes(':') ? `[${address}]` : (address ?? 'THIS-HOST');
  console.error(
    `gradring: port ${masterPort} waits for one check. On the other host: npx gradring doctor --connect ${host}:${masterPort}\n` +
      'gradring: this host then tries up to three ports of that host, tells it the outcome, and ends. Ctrl-C ends it now.',
  );
}

/** @param given The option as it was typed, for the error. */
function toPort(text: string, given: string): number {
  const port = toNumber(text);
  if (Number.isInteger(port) && port >= 1 && port <= MAX_PORT) return port;
  throw invalidArgument(`${given}; a port is a whole number from 1 to ${MAX_PORT}.`);
}

const MARKS = {
  ok: pc.green('ok'),
  absent: pc.dim('absent'),
  warning: pc.yellow('warning'),
  problem: pc.red('problem'),
};

function line({ what, verdict, words }: Finding): string {
  const mark = MARKS[verdict] + ' '.repeat('warning'.length - verdict.length);
  return `${mark}  ${what.padEnd('tfjs-node-gpu'.length)}  ${printableLines(words)}`; // which may quote variables
}
