import type { TensorFile, TensorSource } from '../../src/checkpoint/checkpoint-file';
import { type LoadInput, type LoadedCheckpoint, loadCheckpoint } from '../../src/checkpoint/load-checkpoint';
import type { Ranks } from '../../src/checkpoint/ranks';
import {
  completeSaves,
  copyOf,
  type PendingSave,
  placeSave,
  saveCheckpoint,
  type SaveContent,
  type SaveInput,
  writeSave,
} from '../../src/checkpoint/save-checkpoint';

/** Ranks in this process, whose all-gather needs no ring. */
export function localRanks(worldSize: number): Ranks[] {
  let gathered: Uint8Array[] = [];
  let arrived = 0;
  let waiting: ((all: Uint8Array[]) => void)[] = [];
  return Array.from({ length: worldSize }, (_, rank) => ({
    rank,
    worldSize,
    allGather: bytes =>
      new Promise(resolve => {
        gathered[rank] = bytes;
        waiting.push(resolve);
        if (++arrived < worldSize) return;
        const [all, resolvers] = [gathered, waiting];
        [gathered, waiting, arrived] = [[], [], 0];
        resolvers.forEach(each => each(all));
      }),
  }));
}

/** A tensor of numbers. */
export function floats(name: string, values: readonly number[]): TensorSource {
  const { buffer } = Float32Array.from(values);
  return { name, type: 'F32', shape: [values.length], bytes: () => new Uint8Array(buffer) };
}

/** The numbers of a tensor that was read. */
export function valuesIn(file: TensorFile | undefined, name: string): number[] {
  return Array.from(new Float32Array(file!.tensors.get(name)!.bytes.buffer));
}

/** What the ranks save in that step: weights [step, 1], and for each rank [rank, step]. */
export function inputOf(rank: number, step: number, dir: string, more: Partial<SaveInput> = {}): SaveInput {
  const state = () => ({ rank, step });
  return { dir, keep: 2, step, weights: [floats('w', [step, 1])], own: [floats('u', [rank, step])], state, ...more };
}

type PerRank<T> = T | ((rank: number) => T);
const of = <T>(value: PerRank<T>, rank: number): T =>
  typeof value === 'function' ? (value as (rank: number) => T)(rank) : value;

/** Saves on all ranks; each rank's path or error. */
export function saveAll(
  worldSize: number,
  step: number,
  dir: PerRank<string>,
  more: PerRank<Partial<SaveInput>> = {},
): Promise<PromiseSettledResult<string>[]> {
  const ranks = localRanks(worldSize);
  return Promise.allSettled(
    ranks.map(each => saveCheckpoint(each, inputOf(each.rank, step, of(dir, each.rank), of(more, each.rank)))),
  );
}

/** Begins a save in the background. The training changes its values at once. */
export async function begin(ranks: Ranks, input: SaveInput): Promise<PendingSave> {
  let copy!: SaveContent;
  const place = await placeSave(ranks, input, input.step, async () => void (copy = await copyOf(input, ranks.rank)));
  for (const { bytes } of [...input.weights, ...input.own]) (await bytes()).fill(255);
  const written = writeSave(input, place, ranks.rank, copy);
  written.catch(() => undefined); // completeSaves tells it
  return { folder: input, place, rank: ranks.rank, written };
}

/** As {@link saveAll}, in the background. The save is completed when all ranks have written their files. */
export async function saveAllInBackground(
  worldSize: number,
  step: number,
  dir: string,
  more: Partial<SaveInput> = {},
): Promise<PromiseSettledResult<unknown>[]> {
  const ranks = localRanks(worldSize);
  const begun = await Promise.allSettled(ranks.map(each => begin(each, inputOf(each.rank, step, dir, more))));
  const written = begun.map(each => (each.status === 'fulfilled' ? each.value.written : undefined));
  await Promise.allSettled(written);
  const complete = async (each: Ranks) => completeSaves(each, [valueOf(begun[each.rank]!)]);
  return Promise.allSettled(ranks.map(complete));
}

/** Loads on all ranks; each rank's checkpoint or error. */
export function loadAll(
  worldSize: number,
  dir: PerRank<string>,
  more: Partial<LoadInput> = {},
): Promise<PromiseSettledResult<LoadedCheckpoint | undefined>[]> {
  return Promise.allSettled(
    localRanks(worldSize).map(each => {
      const ranksToRead = () => [each.rank];
      const input = { dir: of(dir, each.rank), onDamage: 'error' as const, ranksToRead, check: () => undefined };
      return loadCheckpoint(each, { ...input, ...more });
    }),
  );
}

/** What all ranks have loaded. Fails if one rank has failed. */
export async function loaded(...args: Parameters<typeof loadAll>): Promise<(LoadedCheckpoint | undefined)[]> {
  return (await loadAll(...args)).map(valueOf);
}

export function valueOf<T>(result: PromiseSettledResult<T>): T {
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly details: { readonly rank?: number };
}

/** The one error that all have; fails if there is none. */
export function commonFailure(results: readonly PromiseSettledResult<unknown>[]): Failure {
  const failures = results.map(result => {
    if (result.status === 'fulfilled') throw new Error('It was to fail.');
    const { code, message, details } = result.reason as Failure;
    return { code, message, details };
  });
  for (const failure of failures) expect(failure).toEqual(failures[0]);
  return failures[0]!;
}
