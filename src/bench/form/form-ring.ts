import type { Encryption, TransportName } from '../../environment/rank-options';
import { GradringError } from '../../errors';
import { launch } from '../../launcher/launch';
import { ON_THIS_HOST } from '../../launcher/launcher-task';
import { lineStream } from '../../lines';
import { ownFile } from '../../own-file';
import { rounded } from '../statistics';
import { RingEnded } from '../speedup/rings';
import type { ProcessUse } from './process-use';

const ENTRY = ownFile('bench/form/peers-entry.js');

/** Each rank has a thread with a heap of its own. By default the part of it for new objects grows to 16 MiB. */
const NODE_ARGS = ['--max-semi-space-size=1', '--optimize-for-size'];

/** What a launcher asks of glibc suits ranks that have much memory: it keeps what is freed, here of each thread. */
const GLIBC = { MALLOC_TRIM_THRESHOLD_: '131072', MALLOC_TOP_PAD_: '131072', MALLOC_MMAP_THRESHOLD_: '131072' };

/** A ring to form on this host. */
export interface FormCase {
  readonly ranks: number;
  /** Among how many processes the ranks are divided. */
  readonly processes: number;
  readonly transport: TransportName;
  readonly encryption: Encryption;
}

/** What a process with some of the ranks writes. */
export type PeersEvent = 'connected' | PeersReport;

/** What a process with some of the ranks tells at its end. */
export interface PeersReport {
  /** When its ranks were connected. */
  readonly use: ProcessUse;
  /** Of the process with rank 0. */
  readonly first?: FirstPeer;
}

/** What rank 0 counted and timed. */
export interface FirstPeer {
  /** Until it was connected: messages and bytes of the rendezvous, which it holds. */
  readonly rendezvous: {
    readonly messagesReceived: number;
    readonly bytesReceived: number;
    readonly messagesSent: number;
    readonly bytesSent: number;
  };
  /** The first barrier. */
  readonly barrierMs: number;
}

/** One line of `gradring bench form --json`. */
export interface FormRow extends FormCase, FirstPeer {
  /** From the start of the first process until the ranks of the last one were connected. */
  readonly connectSeconds: number;
  /** Of all processes together, when their ranks were connected: memory, and the sum of what each took at most. */
  readonly memoryBytes: number;
  readonly peakBytes: number;
  readonly descriptors: number | undefined;
  /** Those of the process that has the most. */
  readonly mostDescriptors: number | undefined;
  readonly threads: number | undefined;
  /** Of all processors, until then. */
  readonly cpuSeconds: number;
}

/**
 * Forms a ring on this host, runs a barrier, and closes it. No process outlives this one.
 *
 * @param onConnected Called with the number of processes whose ranks are all connected.
 * @param stderr The target of error output.
 * @throws RingEnded, after what the processes have said about it.
 */
export async function formRingOf(
  measured: FormCase,
  onConnected: (processes: number) => void,
  stderr: NodeJS.WritableStream,
): Promise<FormRow> {
  const startedAt = performance.now();
  let connected = 0;
  let connectSeconds = 0;
  const reports: PeersReport[] = [];
  const stdout = lineStream(line => {
    if (!/^["{]/.test(line)) return void stderr.write(`${line}\n`);
    const event = JSON.parse(line) as PeersEvent;
    if (event !== 'connected') return void reports.push(event);
    connectSeconds = (performance.now() - startedAt) / 1e3;
    onConnected(++connected);
  });
  const args = [JSON.stringify(measured)];
  const program = { ranks: measured.processes, script: ENTRY, args, nodeArgs: NODE_ARGS, env: GLIBC, prefix: false };
  const { exitCode } = await launch({ ...ON_THIS_HOST, ...program, stdout, stderr });
  if (exitCode !== 0) throw new RingEnded(exitCode);
  return rowOf(measured, connectSeconds, reports);
}

function rowOf(measured: FormCase, connectSeconds: number, reports: readonly PeersReport[]): FormRow {
  const first = reports.find(report => report.first !== undefined)?.first;
  if (first === undefined || reports.length < measured.processes) {
    throw new GradringError('ERR_RANK_FAILED', `A ring of ${measured.ranks} ranks ended without its results.`);
  }
  const uses = reports.map(({ use }) => use);
  const sumOf = (name: keyof ProcessUse): number | undefined => {
    const all = uses.map(use => use[name]);
    return all.every(value => value !== undefined) ? all.reduce((sum, value) => sum + value, 0) : undefined;
  };
  const descriptors = sumOf('descriptors');
  return {
    ...measured,
    ...first,
    barrierMs: rounded(first.barrierMs, 3),
    connectSeconds: rounded(connectSeconds, 3),
    memoryBytes: sumOf('memoryBytes')!,
    peakBytes: sumOf('peakBytes')!,
    descriptors,
    mostDescriptors: descriptors && Math.max(...uses.map(use => use.descriptors!)),
    threads: sumOf('threads'),
    cpuSeconds: rounded(sumOf('cpuSeconds')!, 1),
  };
}
