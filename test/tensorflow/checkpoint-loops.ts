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

/** A loop of checkpoint-loop.js. */
export interface Loop {
  /** Of its variables, and of the optimizer, unless that has another one. */
  readonly name: string;
  readonly optimizer?: string;
  /** Where its checkpoints are, under the test's folder. Default: in one of its name. */
  readonly folder?: string;
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

/** Runs loops one after the other in the same processes. Returns how each ended, by loop and rank. */
export async function outcomesOf(dir: string, ranks: number, loops: readonly Loop[]): Promise<Outcome<LoopRun>[][]> {
  const input = { loops: loops.map(({ folder, ...loop }) => ({ ...loop, dir: path.join(dir, folder ?? loop.name) })) };
  const byRank = await runFixture<Outcome<LoopRun>[]>('checkpoint-loop.js', { ranks, input });
  return loops.map((_, i) => byRank.map(outcomes => outcomes[i]!));
}

/** Of loops that must come to their end: their results, by loop and rank. */
export async function runLoops(dir: string, ranks: number, loops: readonly Loop[]): Promise<LoopRun[][]> {
  return (await outcomesOf(dir, ranks, loops)).map(resultsOf);
}

export function resultsOf(outcomes: readonly Outcome<LoopRun>[]): LoopRun[] {
  return outcomes.map(({ value, ...error }) => {
    if (value === undefined) throw new Error(`A loop failed: ${JSON.stringify(error)}`);
    return value;
  });
}
