import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { launch } from '../launcher/launch';
import { ON_THIS_HOST } from '../launcher/launcher-task';
import { lineStream } from '../lines';
import type { LoggedTraining } from './training-log';
import { keyOf, type PlannedTraining, type StudySize } from './trainings';

/** The program of the ranks. */
const SCRIPT = path.join(__dirname, '../../scripts/train/study.js');

/** How many lines of the ranks' messages are shown if they fail. */
const SHOWN_LINES = 30;

/** What rank 0 writes for each training. */
interface TrainingEvent extends Omit<
  LoggedTraining,
  | 'workload'
  | 'method'
  | 'program'
  | 'isTuning'
  | 'learningRate'
  | 'seed'
  | 'fold'
  | 'bytesSentPerRank'
  | 'denseBytesPerRank'
> {
  readonly id: number;
  readonly bytesSent: number;
  readonly denseBytes: number;
}

export interface RunOptions extends StudySize {
  readonly stderr: NodeJS.WritableStream;
  /** Called for each training, when it is over. */
  readonly onTraining: (key: string, training: Omit<LoggedTraining, 'program'>) => void;
}

/**
 * Runs trainings of one workload, on the same ranks. Returns the exit code: 0; 130 after SIGINT; that of a failure.
 *
 * @throws What `onTraining` throws, when the ranks have ended.
 */
export async function runTrainings(planned: readonly PlannedTraining[], options: RunOptions): Promise<number> {
  const [first] = planned;
  if (first === undefined) return 0;
  const { ranks, quick, dataDir, stderr, onTraining } = options;
  const folder = mkdtempSync(path.join(tmpdir(), 'gradring-study-'));
  const messages: string[] = [];
  let failure: { readonly error: unknown } | undefined;
  try {
    const trainings = planned.map(({ method, isTuning, learningRate, seed, fold }, id) => {
      const { method: name, module, options: own, wrap, seedOffset = 0, partOffset = 0 } = method;
      const pairing = { seed: seed + seedOffset, fold, partOffset };
      return { id, method: name, module, options: own, wrap, isTuning, learningRate, ...pairing };
    });
    const file = path.join(folder, 'trainings.json');
    writeFileSync(file, JSON.stringify({ workload: first.workload, quick, dataDir, trainings }));
    const keep = (line: string): void => {
      messages.push(line);
      if (messages.length > SHOWN_LINES) messages.shift();
    };
    const passOn = (line: string): void => {
      const { id, bytesSent, denseBytes, ...event } = JSON.parse(line) as TrainingEvent;
      const { workload, method, isTuning, learningRate, seed, fold } = planned[id]!;
      const traffic = { bytesSentPerRank: bytesSent, denseBytesPerRank: denseBytes };
      const settings = { workload, method: method.name, isTuning, learningRate, seed, fold };
      onTraining(keyOf(planned[id]!, options), { ...settings, ...event, ...traffic });
    };
    const stdout = lineStream(line => {
      if (failure !== undefined) return;
      if (line === '') return;
      if (!line.startsWith('{"id"')) return keep(line); // a compressor may write, too
      try {
        passOn(line);
      } catch (error) {
        failure = { error };
        process.kill(process.pid, 'SIGTERM'); // which launch() passes on to the ranks
      }
    });
    const quietly = lineStream(keep);
    const launched = { ...ON_THIS_HOST, ranks, script: SCRIPT, args: [file], prefix: false, stdout, stderr: quietly };
    const { exitCode, interruptedBy } = await launch(launched);
    if (failure !== undefined) throw failure.error;
    if (exitCode !== 0 && interruptedBy === undefined) stderr.write(`${messages.join('\n')}\n`);
    return exitCode;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
