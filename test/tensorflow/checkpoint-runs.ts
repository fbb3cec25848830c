import path from 'node:path';
import type { StepStatistics } from '../../src/core/exchange-steps';
import { runFixture } from './support';

export interface Position {
  readonly step: number;
  readonly epoch: number;
  readonly batch: number;
  readonly state?: unknown;
  readonly path?: string;
  readonly skipped: string[];
}

export interface LoopRun {
  readonly at?: Position;
  readonly densities: number[];
  /** Tensors as hexadecimal bytes. */
  readonly weights: string[];
  readonly resumedState: Record<string, string>;
  readonly state: Record<string, string>;
  readonly statistics: StepStatistics;
  readonly counters: number[];
}

/** A run of checkpoint-runs.js. */
interface Run {
  /** Where its checkpoints are, under the folder of the runs. */
  readonly folder?: string;
}

/** A run of checkpoint-loop.js. */
export interface Loop extends Run {
  /** Of its variables, and of the optimizer, unless that has another one. */
  readonly name: string;
  readonly optimizer?: string;
  readonly to: number;
  readonly save?: true;
  readonly resume?: true;
  readonly options?: object;
  /** The name of another compression than dgc. */
  readonly compressor?: string;
  readonly compression?: object;
}

export interface Outcome<T> {
  readonly value?: T;
  readonly message?: string;
}

/** Runs of checkpoint-runs.js in the same processes, in the order in which they were added. */
export class CheckpointRuns {
  private readonly runs: object[] = [];
  private launched: Promise<readonly (readonly Outcome<unknown>[])[]> | undefined;

  constructor(
    private readonly ranks: number,
    private readonly dir: () => string,
  ) {}

  /** Returns a function that gives how each ended, by run and rank. The first of these functions launches all runs. */
  add<T>(kind: 'fit' | 'loop' | 'misuse', runs: readonly (Run & object)[]): () => Promise<Outcome<T>[][]> {
    const start = this.runs.length;
    this.runs.push(...runs.map(run => ({ kind, ...run })));
    return async () => {
      const byRank = await (this.launched ??= this.launch());
      return runs.map((_, i) => byRank.map(outcomes => outcomes[start + i] as Outcome<T>));
    };
  }

  private launch(): Promise<readonly (readonly Outcome<unknown>[])[]> {
    const input = this.runs.map(({ folder, ...run }: Run) => ({
      ...run,
      ...(folder !== undefined && { dir: path.join(this.dir(), folder) }),
    }));
    return runFixture('checkpoint-runs.js', { ranks: this.ranks, input });
  }
}

/** What each rank has returned from a run that must come to its end. */
export function resultsOf<T>(outcomes: readonly Outcome<T>[]): T[] {
  return outcomes.map(({ value, ...error }) => {
    if (value === undefined) throw new Error(`A run failed: ${JSON.stringify(error)}`);
    return value;
  });
}
