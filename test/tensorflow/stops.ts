import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { launchFixture, runFixture } from './support';

/** Trainings that are told to stop, and go on in other processes. */

export interface Ended {
  /** The step that it resumed from. */
  readonly at: number;
  readonly steps: number;
  readonly hash: string;
}

export interface Stop {
  readonly ranks: number;
  readonly way: 'fit' | 'sync loop' | 'loop';
  readonly told: { readonly rank: number; readonly step: number; readonly signal: 'SIGTERM' | 'SIGUSR1' };
  readonly wrap?: object;
  readonly options?: object;
  readonly min?: number;
  /** After which all save at the earliest. */
  readonly savedAt: number;
}

let folder: string | undefined;
let folders = 0;

/** Where a training may have its checkpoints. */
export function checkpointFolder(): string {
  folder ??= mkdtempSync(path.join(tmpdir(), 'gradring-stop-'));
  return path.join(folder, `checkpoints-${folders++}`);
}

/** Removes all that {@link checkpointFolder} gave. */
export function removeCheckpoints(): void {
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
}

/**
 * One rank is told to stop: all save after the same step, and the run ends with exit code 75. Other processes resume
 * there, and end with the same bits as if nobody had been stopped.
 *
 * The signal comes after a step. So the others learn of it with the next one, or with the one after that: Node handles
 * signals between two turns of its event loop.
 */
export async function expectToStopAndResume({ ranks, min, savedAt, told, wrap, options, way }: Stop): Promise<void> {
  const [dir, input] = [checkpointFolder(), { way, wrap, options }];
  const stopped = await launchFixture('stop.js', { ranks, min, input: { ...input, told, dir } });
  const at = Number(/All ranks have saved at step (\d+) \(/.exec(stopped.output)![1]);
  expect([0, 1]).toContain((at - savedAt) / (wrap === undefined ? 1 : 4));
  const who = told.rank === 0 ? `this rank was told to stop (${told.signal})` : 'another rank was told to stop';
  expect(stopped.output).toContain(`gradring: ${who}.`);
  expect(stopped.output).toContain('gradring: the ranks were told to stop. They have saved');
  expect(stopped.ranks.map(({ exitCode }) => exitCode)).toEqual(Array(ranks).fill(75));
  expect([stopped.exitCode, stopped.results]).toEqual([75, []]);

  const resumed = await runFixture<Ended>('stop.js', { ranks, min, input: { ...input, dir } });
  expect(resumed).toEqual((await wholeRun(ranks, way, wrap)).map(each => ({ ...each, at })));
}

const wholeRuns = new Map<string, Promise<readonly Ended[]>>();

/** What the ranks end with if nobody stops them: the same in an elastic run, and with synchronous steps. */
export function wholeRun(ranks: number, way: Stop['way'], wrap?: object): Promise<readonly Ended[]> {
  const input = { way: way === 'fit' ? way : 'loop', wrap };
  const key = JSON.stringify([ranks, input]);
  const dir = checkpointFolder();
  const run = wholeRuns.get(key) ?? runFixture<Ended>('stop.js', { ranks, input: { ...input, dir } });
  wholeRuns.set(key, run);
  return run;
}
