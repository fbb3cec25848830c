import { tf } from './tfjs';
import { inspect } from 'node:util';
import { checkOptions, requireBoolean, requireCount } from '../check-options';
import type { Communicator } from '../communicator/communicator';
import { invalidArgument } from '../errors';
import { brief } from './brief';
import { DataCheck } from './data-check';
import { checkSeed, orderOfEpoch, permutation } from './row-dataset';

/** What `model.fit` takes as x or y: a tensor, or several with the same number of rows. */
export type TensorData = tf.Tensor | tf.Tensor[] | { [input: string]: tf.Tensor };

/** How {@link Ring.shard} treats the data. */
export interface ShardOptions {
  /** Whether to compare a sample of the data with that of the other ranks, and to warn if it differs. Default true. */
  readonly check?: boolean;
  /**
   * A seed, the same on all ranks. In `model.fit` with `ring.callbacks()` each epoch then takes the rows in another
   * order, divided anew between the ranks that are there. Tensors only, which must not be disposed of before the
   * training ends. Default: a rank keeps its rows.
   */
  readonly reshuffle?: number;
  /**
   * Whether the last ranks get a row (or an element of a dataset) less than the others, if they do not divide evenly,
   * instead of one that another rank has, too. Then the ranks may differ in their number of steps: see the option
   * `uneven` of {@link Ring.callbacks}. Default false.
   */
  readonly uneven?: boolean;
}

/** How {@link Ring.split} divides the rows. */
export interface SplitOptions extends Pick<ShardOptions, 'check'> {
  /** The fraction of the rows that is kept for validation, more than 0 and less than 1. */
  readonly validation: number;
  /** The seed of the shuffle, the same on all ranks. Default 1. */
  readonly seed?: number;
}

/** What {@link Ring.split} returns. The tensors are new. */
export interface Split<X extends TensorData, Y extends TensorData> {
  /** This rank's shard of the rows to train on. */
  readonly train: [X, Y];
  /** The rows to validate on, the same on all ranks. */
  readonly validation: [X, Y];
}

/**
 * This rank's rows of tensors: rows rank, rank + worldSize, and so on. All ranks get the same number of rows, and so
 * take the same number of steps: if the rows do not divide evenly, the last ranks get a row from the start again. The
 * tensors are new, and the inputs are not disposed of.
 */
export function shardTensors<T extends TensorData[]>(
  data: T,
  communicator: Communicator,
  options: ShardOptions = {},
): T {
  const rows = rowsOf(data, 'ring.shard');
  const { reshuffle } = options;
  checkSeed(reshuffle);
  dataCheckFor(communicator, 'ring.shard', options)?.note(listTensors(data), `reshuffle ${reshuffle}`);
  const shard = takeRows(data, shardOf(orderOfEpoch(rows, reshuffle, 0), communicator.launched, options.uneven));
  if (reshuffle !== undefined) {
    const sources = listTensors(data);
    listTensors(shard).forEach((tensor, i) => wholes.set(tensor, { source: sources[i]!, seed: reshuffle }));
  }
  return shard;
}

/** The rows of tensors as a dataset of batches, in an order of its own each time if they are shuffled. */
export function ownBatches(data: [TensorData, TensorData], batchSize: number, isShuffled: boolean) {
  requireCount('batchSize', batchSize);
  const isEmpty = listTensors(data).every(({ shape }) => shape[0] === 0);
  const rows = isEmpty ? 0 : rowsOf(data, 'model.fit');
  const count = Math.ceil(rows / batchSize);
  const dataset = tf.data.generator(function* () {
    const order = isShuffled ? tf.util.createShuffledIndices(rows) : Uint32Array.from({ length: rows }, (_, i) => i);
    for (let batch = 0; batch < count; batch++) {
      const [xs, ys] = takeRows(data, Int32Array.from(order.subarray(batch * batchSize, (batch + 1) * batchSize)));
      yield { xs, ys };
    }
  });
  return Object.assign(dataset, { size: count }) as tf.data.Dataset<tf.TensorContainer>;
}

/** The tensors of which shards that are to be reshuffled were taken. */
const wholes = new WeakMap<tf.Tensor, { readonly source: tf.Tensor; readonly seed: number }>();

/** What is to be divided anew in each epoch. */
export interface Reshuffled {
  readonly seed: number;
  readonly rows: number;
  /** Some rows of x and y. The tensors are new. */
  take(rows: Int32Array): { readonly xs: TensorData; readonly ys: TensorData };
}

/**
 * What `model.fit` takes of shards that are to be reshuffled. Undefined if x is not one.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` if y is not one with the same seed.
 */
export function reshuffledOf(x: TensorData, y: TensorData): Reshuffled | undefined {
  const tensors = listTensors([x, y]);
  const found = tensors.map(tensor => wholes.get(tensor));
  if (found[0] === undefined) return undefined;
  const { source, seed } = found[0];
  if (found.some(whole => whole?.seed !== seed || whole.source.shape[0] !== source.shape[0])) {
    throw invalidArgument(
      'model.fit was given x of ring.shard with reshuffle, and y of another call. Pass both to one: ring.shard(x, y, { reshuffle }).',
    );
  }
  return {
    seed,
    rows: source.shape[0]!,
    take(rows) {
      const [xs, ys] = takeRows([x, y], rows, tensor => wholes.get(tensor)!.source);
      return { xs: xs!, ys: ys! };
    },
  };
}

/** See {@link Ring.split}. */
export function splitTensors<X extends TensorData, Y extends TensorData>(
  x: X,
  y: Y,
  communicator: Communicator,
  options: SplitOptions,
): Split<X, Y> {
  if (options === undefined)
    throw invalidArgument('ring.split needs the fraction for validation: { validation: 0.2 }.');
  checkOptions('ring.split', options, { validation: true, seed: true, check: true });
  const { validation, seed = 1, check = true } = options;
  const rows = rowsOf([x, y], 'ring.split');
  const kept = Math.round(rows * validation);
  if (typeof validation !== 'number' || !(kept >= 1 && kept < rows)) {
    throw invalidArgument(
      `validation is ${inspect(validation)}; it must be a fraction that leaves some of the ${rows} rows for training, and some for validation.`,
    );
  }
  if (!Number.isSafeInteger(seed)) throw invalidArgument(`seed is ${inspect(seed)}; it must be a whole number.`);
  dataCheckFor(communicator, 'ring.split', { check })?.note(listTensors([x, y]));
  const order = permutation(rows, seed);
  return {
    train: takeRows([x, y], shardOf(order.subarray(kept), communicator.launched)),
    validation: takeRows([x, y], order.subarray(0, kept)),
  };
}

/**
 * This rank's elements of a dataset (batches, if it is batched): elements rank, rank + worldSize, and so on. All ranks
 * get the same number: if the last group is incomplete, ranks without an element get one of the others' elements. Every
 * rank reads the whole source and disposes of what is not its own, so the source must give the same elements in the
 * same order on all ranks.
 */
export function shardDataset<T extends tf.TensorContainer>(
  dataset: tf.data.Dataset<T>,
  communicator: Communicator,
  options: ShardOptions = {},
): tf.data.Dataset<T> {
  if (options.reshuffle !== undefined) {
    throw invalidArgument(
      'ring.shard reshuffles tensors, not a dataset, which has its order. ring.shardRows(rows, read, { reshuffle }) reads rows or files in any order.',
    );
  }
  const place = communicator.launched;
  let dataCheck = dataCheckFor(communicator, 'ring.shard', options);
  const sharded = tf.data.generator<T>((async () => {
    const iterator = await dataset.iterator();
    async function* own(): AsyncGenerator<T> {
      for (;;) {
        const group: T[] = [];
        while (group.length < place.worldSize) {
          const { value, done } = await iterator.next();
          if (done) break;
          group.push(value);
        }
        if (group.length === 0) return;
        dataCheck?.note(tensorsIn(group[0]));
        dataCheck = undefined; // once
        const mine = group[options.uneven === true ? place.rank : place.rank % group.length];
        for (const other of group) if (other !== mine) tf.dispose(other);
        if (mine !== undefined) yield mine;
        if (group.length < place.worldSize) return;
      }
    }
    return own();
  }) as never);
  // From the size, model.fitDataset knows the number of steps.
  if (Number.isFinite(dataset.size)) Object.assign(sharded, { size: countOf(dataset.size, place, options.uneven) });
  return sharded;
}

/** Remembers that the ranks divide their data. Returns what notes a sample, unless the options turn that off. */
function dataCheckFor(communicator: Communicator, call: string, options: ShardOptions): DataCheck | undefined {
  checkOptions(call, options, { check: true, reshuffle: true, uneven: true });
  const { check = true, uneven = false } = options;
  requireBoolean('check', check);
  requireBoolean('uneven', uneven);
  const dataCheck = DataCheck.of(communicator);
  dataCheck.isDivided = true;
  return check ? dataCheck : undefined;
}

/** The tensors of x, or of x and y. */
export function listTensors(data: readonly TensorData[]): tf.Tensor[] {
  return data.flatMap(each => (each instanceof tf.Tensor ? [each] : Object.values(each ?? {})));
}

/** How many rows the tensors have. */
export function rowsOf(data: readonly TensorData[], call: string): number {
  const tensors = listTensors(data);
  const isMissing = data.some(each => listTensors([each]).length === 0);
  if (isMissing || tensors.some(tensor => !(tensor instanceof tf.Tensor))) {
    const accepted = 'tensors: one, an array of them, or a record of them by name';
    const given = data.map(brief).join(' and ');
    throw invalidArgument(
      `${call} takes ${call === 'ring.split' ? '' : 'a dataset, or '}${accepted}. It was given ${given}.`,
    );
  }
  const rows = tensors[0]?.shape[0];
  if (rows === undefined || tensors.some(tensor => tensor.shape[0] !== rows)) {
    const counts = tensors.map(tensor => tensor.shape[0] ?? 'no').join(', ');
    throw invalidArgument(`${call} takes tensors with the same number of rows; these have ${counts}.`);
  }
  if (rows === 0) throw invalidArgument(`${call} was given tensors without rows.`);
  return rows;
}

/** This rank's part of the row numbers. */
function shardOf(rows: Int32Array, place: Communicator['launched'], isUneven?: boolean): Int32Array {
  const { rank, worldSize } = place;
  const length = countOf(rows.length, place, isUneven);
  return Int32Array.from({ length }, (_, i) => rows[(rank + i * worldSize) % rows.length]!);
}

/** How many of so many rows a rank has. */
function countOf(rows: number, { rank, worldSize }: Communicator['launched'], isUneven = false): number {
  return Math.ceil((isUneven ? rows - rank : rows) / worldSize);
}

/** @param sourceOf Where the rows of a tensor are taken from. Default: the tensor. */
function takeRows<T extends TensorData[]>(
  data: T,
  rows: Int32Array,
  sourceOf = (tensor: tf.Tensor): tf.Tensor => tensor,
): T {
  return tf.tidy(() => {
    const selected = tf.tensor1d(rows, 'int32');
    const take = (tensor: tf.Tensor) => tf.gather(sourceOf(tensor), selected);
    return data.map(each => {
      if (each instanceof tf.Tensor) return take(each);
      if (Array.isArray(each)) return each.map(take);
      return Object.fromEntries(Object.entries(each).map(([name, tensor]) => [name, take(tensor)]));
    }) as T;
  });
}

/** The tensors of a dataset's element, which may be nested. */
export function tensorsIn(element: unknown): tf.Tensor[] {
  if (element instanceof tf.Tensor) return [element];
  if (typeof element !== 'object' || element === null) return [];
  return Object.values(element).flatMap(tensorsIn);
}
