import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { GradringError } from '../errors';
import type { Training } from './summarise';

/** A training that was run, as the log has it. JSON has no NaN: a score of null is that of a training that diverged. */
export interface LoggedTraining extends Omit<Training, 'score' | 'logLoss' | 'examples'> {
  readonly score: number | null;
  readonly logLoss: number | null;
  readonly examples: readonly number[];
  /** Of the workload. */
  readonly data: string;
  /** Of the model. 0 if the training diverged. */
  readonly parameters: number;
}

/**
 * The trainings that were run, one on each line of a file. A study that was interrupted goes on from there. A line that
 * was being written at that time is left out.
 */
export class TrainingLog {
  private readonly done: Map<string, LoggedTraining>;

  /** @throws GradringError `ERR_INVALID_ARGUMENT` if the file holds something else. */
  constructor(private readonly file: string) {
    this.done = existsSync(file) ? readLog(file) : new Map();
  }

  get size(): number {
    return this.done.size;
  }

  get(key: string): LoggedTraining | undefined {
    return this.done.get(key);
  }

  add(key: string, training: LoggedTraining): void {
    this.done.set(key, training);
    appendFileSync(this.file, `${JSON.stringify({ key, training })}\n`);
  }
}

/** A training as the statistics take it. */
export function trainingOf({ score, logLoss, ...others }: LoggedTraining): Training {
  return { ...others, score: score ?? NaN, logLoss: logLoss ?? NaN };
}

function readLog(file: string): Map<string, LoggedTraining> {
  const text = readFileSync(file, 'utf8');
  const lines = text.split('\n');
  const unfinished = lines.pop()!;
  // A new line must not continue one that was cut off.
  if (unfinished !== '') appendFileSync(file, '\n');
  const done = new Map<string, LoggedTraining>();
  for (const [i, line] of lines.entries()) {
    const { key, training } = entryOf(line) ?? {};
    if (key !== undefined && training !== undefined) done.set(key, training);
    else if (line !== '' && i === 0) throw notALog(file);
  }
  return done;
}

function entryOf(line: string): { key?: string; training?: LoggedTraining } | undefined {
  try {
    return JSON.parse(line) as { key?: string; training?: LoggedTraining };
  } catch {
    return undefined;
  }
}

function notALog(file: string): GradringError {
  const words = `${file} is no log of a study. Pass another --json file: the log lies beside it.`;
  return new GradringError('ERR_INVALID_ARGUMENT', words);
}
