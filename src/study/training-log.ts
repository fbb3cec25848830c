import { appendFileSync, existsSync, readFileSync, truncateSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { attempt } from '../attempt';
import { invalidArgument } from '../errors';
import type { Training } from './summarise';

/** A training that was run, as the log has it. JSON has no NaN: a score of null is that of a training that diverged. */
export interface LoggedTraining extends Omit<Training, 'score' | 'logLoss' | 'examples'> {
  readonly score: number | null;
  readonly logLoss: number | null;
  readonly examples: readonly number[];
  /** The data of the workload. */
  readonly data: string;
  /** How many parameters the model has. 0 if the training diverged. */
  readonly parameters: number;
  /** The hash of the program that trained. */
  readonly program: string;
}

/** What was declared of a workload before its first training. */
interface Declaration {
  readonly workload: string;
  readonly terms: unknown;
  /** As `Date.toISOString` writes it. */
  readonly at: string;
}

type Line = { readonly declaration: Declaration } | { readonly key: string; readonly training: LoggedTraining };

/**
 * The trainings that were run, one on each line of a file, and before them what was declared. A study that was
 * interrupted goes on from there. A line that was being written at that time is taken away.
 */
export class TrainingLog {
  private readonly declarations = new Map<string, Declaration>();
  private readonly trainings = new Map<string, LoggedTraining>();

  /** @throws GradringError `ERR_INVALID_ARGUMENT` if the file holds something else. */
  constructor(private readonly file: string) {
    if (!existsSync(file)) return;
    for (const line of readLines(file)) {
      if ('declaration' in line) this.declarations.set(line.declaration.workload, line.declaration);
      else this.trainings.set(line.key, line.training);
    }
  }

  /** When the first workload was declared. */
  get startedAt(): string {
    return [...this.declarations.values()].map(({ at }) => at).sort()[0]!;
  }

  /** How many trainings there are. */
  get length(): number {
    return this.trainings.size;
  }

  get(key: string): LoggedTraining | undefined {
    return this.trainings.get(key);
  }

  /**
   * To be called before the first training of a workload.
   *
   * @param terms Plain data.
   * @throws GradringError `ERR_INVALID_ARGUMENT` if the log has trainings of the workload under other terms.
   */
  declare(workload: string, terms: unknown): void {
    const before = this.declarations.get(workload);
    if (before !== undefined) {
      if (isDeepStrictEqual(before.terms, JSON.parse(JSON.stringify(terms)))) return;
      throw invalidArgument(
        `${this.file} has trainings of ${workload} that were declared on ${before.at} with other margins, tests, seeds, learning rates, ranks or data. Pass another --json file, or --restart, which forgets them.`,
      );
    }
    const declaration = { workload, terms, at: new Date().toISOString() };
    this.append({ declaration });
    this.declarations.set(workload, declaration);
  }

  add(key: string, training: LoggedTraining): void {
    this.append({ key, training });
    this.trainings.set(key, training);
  }

  private append(line: Line): void {
    appendFileSync(this.file, `${JSON.stringify(line)}\n`);
  }
}

/** A training as the statistics take it. */
export function trainingOf({ score, logLoss, ...others }: LoggedTraining): Training {
  return { ...others, score: score ?? NaN, logLoss: logLoss ?? NaN };
}

function readLines(file: string): Line[] {
  const text = readFileSync(file, 'utf8');
  const complete = text.slice(0, text.lastIndexOf('\n') + 1);
  const lines = complete.split('\n').slice(0, -1).map(lineOf);
  const rest = text.slice(complete.length);
  if (lines.includes(undefined) || !(rest === '' || rest.startsWith('{'))) {
    throw invalidArgument(`${file} is no log of a study. Pass another --json file: the log lies beside it.`);
  }
  if (rest !== '') truncateSync(file, Buffer.byteLength(complete));
  return lines as Line[];
}

function lineOf(text: string): Line | undefined {
  const line = attempt(() => JSON.parse(text) as Partial<Record<'declaration' | 'key' | 'training', unknown>> | null);
  const isLine = line?.declaration !== undefined || (line?.key !== undefined && line.training !== undefined);
  return isLine ? (line as Line) : undefined;
}
