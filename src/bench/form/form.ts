import { freemem } from 'node:os';
import type { Argv, CommandModule, Options } from 'yargs';
import { JSON_OPTION, parseCount, parseCounts, parseName, TEXT_OPTION, type Typed } from '../../command-line';
import { ENCRYPTIONS, TRANSPORTS } from '../../environment/rank-options';
import { MAX_WORLD_SIZE } from '../../environment/variables';
import { GradringError, invalidArgument } from '../../errors';
import { requireOneLauncher } from '../../launcher/launcher-task';
import { openFilesLimit } from '../../open-files';
import type { Column } from '../../table';
import { Progress } from '../progress';
import { writeResults } from '../results';
import { exitCodeOf } from '../speedup/rings';
import { type FormCase, type FormRow, formRingOf } from './form-ring';

/** So many ranks a process has unasked, and at most: they share ZeroMQ's context, which has room for 1023 sockets. */
const IN_A_PROCESS = { unasked: 125, most: 200 } as const;
/** What a rank in a process of many takes. */
const OF_A_RANK = { files: 40, bytes: 14e6 } as const;

const OPTIONS = {
  ranks: { ...TEXT_OPTION, alias: 'n', default: '1000', describe: 'How many ranks the ring has; several with commas' },
  processes: {
    ...TEXT_OPTION,
    describe: `Among how many processes they are divided [default: as many as have up to ${IN_A_PROCESS.unasked} ranks each, at least 2]`,
  },
  transport: { ...TEXT_OPTION, default: 'auto', describe: `The links between the ranks: ${TRANSPORTS.join(', ')}` },
  encryption: { ...TEXT_OPTION, default: 'auto', describe: `Encrypt TCP: ${ENCRYPTIONS.join(', ')}` },
  json: JSON_OPTION,
} as const satisfies Record<string, Options>;

const megabytes = (bytes: number): number => bytes / 1e6;

const COLUMNS: readonly Column<FormRow>[] = [
  { heading: 'ranks', value: row => row.ranks, decimals: 0 },
  { heading: 'processes', value: row => row.processes, decimals: 0 },
  { heading: 'connected after s', value: row => row.connectSeconds, decimals: 1 },
  { heading: 'barrier ms', value: row => row.barrierMs, decimals: 0 },
  { heading: 'CPU s', value: row => row.cpuSeconds, decimals: 1 },
  { heading: 'memory MB', value: row => megabytes(row.memoryBytes), decimals: 0 },
  { heading: 'peaks MB', value: row => megabytes(row.peakBytes), decimals: 0 },
  { heading: 'descriptors', value: row => row.descriptors, decimals: 0 },
  { heading: 'of a process', value: row => row.mostDescriptors, decimals: 0 },
  { heading: 'threads', value: row => row.threads, decimals: 0 },
  { heading: 'messages to rank 0', value: row => row.rendezvous.messagesReceived, decimals: 0 },
  { heading: 'bytes', value: row => row.rendezvous.bytesReceived, decimals: 0 },
  { heading: 'from rank 0', value: row => row.rendezvous.messagesSent, decimals: 0 },
  { heading: 'bytes', value: row => row.rendezvous.bytesSent, decimals: 0 },
];

/** `gradring bench form`: what a ring of many ranks needs to form. */
export const formBenchmark: CommandModule = {
  command: 'form',
  describe: 'Form a ring of many ranks on this host, and tell what that takes',
  builder: (yargs: Argv) =>
    yargs
      .usage(
        '$0 bench form [options]\n\nForms a ring of real ranks, many in a process: each has its comm thread, comes to the rendezvous, ' +
          'and is connected to its neighbours, which are in other processes. Tells how long it takes until all are ' +
          'connected, the time of the first barrier, memory, descriptors and threads of all ' +
          'processes together, and the messages and bytes of the rendezvous at rank 0. Neighbours share the processors, ' +
          'so times are not those of a cluster.',
      )
      .options(OPTIONS)
      .example('$0 bench form -n 60', 'sixty ranks in two processes')
      .example('$0 bench form -n 125,250,500,1000', 'several sizes')
      .example('$0 bench form -n 100 --processes 1 --transport tcp --encryption on', 'other links, all in one process')
      .epilogue('Ctrl-C ends all processes; the exit code is 130.'),
  handler: async parsed => {
    process.exitCode = await run(parsed as unknown as Words);
  },
};

type Words = Typed<typeof OPTIONS>;

async function run(words: Words): Promise<number> {
  const cases = casesOf(words);
  const progress = new Progress();
  const stderr = progress.stderr();
  const describe = (i: number) => `${cases[i]!.ranks} ranks in ${cases[i]!.processes} processes`;
  const measurements = cases.map((each, i) => () => {
    requireRoom(each);
    return formRingOf(
      each,
      connected => progress.show(`${describe(i)}: ${connected} of ${each.processes} processes are connected`),
      stderr,
    );
  });
  return exitCodeOf(() => writeResults(measurements, { json: words.json, columns: COLUMNS, describe }));
}

function casesOf(words: Words): FormCase[] {
  requireOneLauncher('bench form');
  const given = words.processes === undefined ? undefined : parseCount(words.processes, 'processes');
  const links = {
    transport: parseName(words.transport, 'transport', TRANSPORTS),
    encryption: parseName(words.encryption, 'encryption', ENCRYPTIONS),
  };
  return parseCounts(words.ranks, 'ranks').map(ranks => {
    if (ranks < 2 || ranks > MAX_WORLD_SIZE) {
      throw invalidArgument(`--ranks is '${words.ranks}'; a ring has 2 to ${MAX_WORLD_SIZE} ranks.`);
    }
    const processes = given ?? Math.max(2, Math.ceil(ranks / IN_A_PROCESS.unasked));
    if (processes > ranks) throw invalidArgument(`--processes is ${processes}, but there are only ${ranks} ranks.`);
    const each = Math.ceil(ranks / processes);
    if (each > IN_A_PROCESS.most) {
      throw invalidArgument(
        `--processes is ${processes}, so that a process would have ${each} of ${ranks} ranks. ZeroMQ has sockets for ${IN_A_PROCESS.most} in a process: give --processes ${Math.ceil(ranks / IN_A_PROCESS.most)} or more.`,
      );
    }
    return { ranks, processes, ...links };
  });
}

/** @throws GradringError `ERR_OPEN_FILES`, `ERR_OUT_OF_MEMORY` */
function requireRoom({ ranks, processes }: FormCase): void {
  const files = Math.ceil(ranks / processes) * OF_A_RANK.files + ranks; // all ranks connect to rank 0
  if (openFilesLimit !== undefined && files > openFilesLimit) {
    const words = `A process with ${Math.ceil(ranks / processes)} of ${ranks} ranks opens up to ${files} files and connections, but may have only ${openFilesLimit}. Raise the hard limit, such as \`ulimit -n ${files}\` as root, or divide the ranks among more --processes.`;
    throw new GradringError('ERR_OPEN_FILES', words);
  }
  const bytes = ranks * OF_A_RANK.bytes;
  if (bytes > freemem()) {
    const gigabytes = (value: number): string => (value / 1e9).toFixed(1);
    const words = `${ranks} ranks take about ${gigabytes(bytes)} GB, but only ${gigabytes(freemem())} GB of memory are free. Give a smaller --ranks.`;
    throw new GradringError('ERR_OUT_OF_MEMORY', words);
  }
}
