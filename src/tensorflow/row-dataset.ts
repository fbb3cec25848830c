import { createHash } from 'node:crypto';
import { checkOptions, requireBoolean, requireCount } from '../check-options';
import type { Communicator } from '../communicator/communicator';
import { invalidArgument } from '../errors';
import { tf } from './tfjs';

/** How {@link Ring.shardRows} divides rows. */
export interface RowsOptions {
  /** How many rows a rank takes in a step. Default 32. */
  readonly batchSize?: number;
  /** A seed: each epoch takes the rows in an order of its own, which the seed decides. Default: in order. */
  readonly reshuffle?: number;
  /**
   * Whether no row is taken twice: then some ranks may have fewer rows in the last step of an epoch, or no batch. For
   * `uneven: 'join'` of {@link Ring.callbacks}. Default false.
   */
  readonly uneven?: boolean;
}

/** Where `model.fit` is in the rows of an epoch: the same on all ranks. */
export interface EpochPlace {
  readonly epoch: number;
  /** How many of its batches were done before, and how many rows the ranks had taken together. Undefined: not known. */
  readonly firstBatch: number;
  readonly firstRow: number | undefined;
  /** How many batches are done since then. */
  batches: number;
  /** How many rows the ranks have taken together by now. Undefined until a dataset of rows has begun. */
  row: number | undefined;
  /** How many rows a rank takes in a step, as the dataset says. */
  batchSize: number;
}

const places = new WeakMap<Communicator, EpochPlace>();

/** Whose datasets may take the place of the epoch: what is trained on is being asked for its batches. */
const offering = new WeakSet<Communicator>();

/** Runs what asks the dataset that is trained on for the batches of an epoch. */
export async function takingEpochPlace<T>(communicator: Communicator, run: () => Promise<T>): Promise<T> {
  offering.add(communicator);
  try {
    return await run();
  } finally {
    offering.delete(communicator);
  }
}

/** An epoch of `model.fit` begins, or goes on. Undefined: the training is over. */
export function setEpochPlace(communicator: Communicator, place: EpochPlace | undefined): void {
  if (place === undefined) places.delete(communicator);
  else places.set(communicator, place);
}

/**
 * Rows of which all ranks together take each once in an epoch. In every step each rank takes the next rows that no
 * other has taken. If the ring changes its size, the ranks that are there divide what is left. In the last step of an
 * epoch a few rows are taken twice, if they do not divide evenly.
 *
 * In `model.fitDataset` with `ring.callbacks()` it knows the epoch, and where a checkpoint was saved in it. In a loop
 * of your own each iteration is the next epoch. Made by {@link Ring.shardRows}.
 *
 * ```ts
 * const dataset = ring.shardRows(100, rows => tf.tensor1d(Array.from(rows)), { reshuffle: 7 });
 * dataset.setEpoch(3);
 * await dataset.forEachAsync(batch => batch.dispose());
 * console.log(dataset.size); // 2
 * ```
 */
export class RowDataset<T extends tf.TensorContainer> extends tf.data.Dataset<T> {
  private readonly batchSize: number;
  private readonly seed: number | undefined;
  private readonly uneven: boolean;
  private epoch = 0;
  private firstBatch = 0;

  /** @param read See {@link Ring.shardRows}. */
  constructor(
    private readonly communicator: Communicator,
    private readonly rows: number,
    private readonly read: (rows: Int32Array) => T | Promise<T>,
    options: RowsOptions = {},
  ) {
    super();
    checkOptions('ring.shardRows', options, { batchSize: true, reshuffle: true, uneven: true });
    const { batchSize = 32, reshuffle, uneven = false } = options;
    requireCount('rows', rows);
    requireCount('batchSize', batchSize);
    checkSeed(reshuffle);
    requireBoolean('uneven', uneven);
    if (uneven && communicator.isElastic) {
      throw invalidArgument("uneven is for uneven: 'join' of ring.callbacks, which does not work in an elastic run.");
    }
    if (typeof read !== 'function') {
      throw invalidArgument(
        'ring.shardRows takes the number of rows, and a function that reads rows by their numbers.',
      );
    }
    this.batchSize = batchSize;
    this.seed = reshuffle;
    this.uneven = uneven;
    // From it model.fitDataset knows the number of steps: the same on all ranks, also while a ring changes its size.
    const size = Math.ceil(rows / (batchSize * communicator.launched.worldSize));
    Object.assign(this, { size });
  }

  /**
   * Chooses the epoch of the next iteration, for a loop of your own.
   *
   * @param firstBatch How many of its batches are done, by a ring of the present size.
   */
  setEpoch(epoch: number, firstBatch = 0): void {
    for (const [name, value] of Object.entries({ epoch, firstBatch })) {
      if (!Number.isSafeInteger(value) || value < 0)
        throw invalidArgument(`${name} is ${value}; it is counted from 0.`);
    }
    this.epoch = epoch;
    this.firstBatch = firstBatch;
  }

  /** Begins the batches of this rank in an epoch. */
  override async iterator(): ReturnType<tf.data.Dataset<T>['iterator']> {
    const { batchSize, epoch, firstBatch } = this;
    const { communicator } = this;
    const place = offering.has(communicator) ? places.get(communicator) : undefined;
    const own = { epoch, firstBatch, firstRow: undefined, batches: 0, row: undefined, batchSize };
    return tf.data.generator<T>((async () => this.batches(place ?? own)) as never).iterator();
  }

  private async *batches(place: EpochPlace): AsyncGenerator<T> {
    const { communicator, rows, batchSize } = this;
    const isOfFit = places.get(communicator) === place;
    if (!isOfFit) this.setEpoch(place.epoch + 1);
    const order = orderOfEpoch(rows, this.seed, place.epoch);
    place.batchSize = batchSize;
    place.row ??= place.firstRow ?? place.firstBatch * batchSize * communicator.worldSize;
    let { row } = place;
    const before = place.batches;
    for (let taken = 0; ; taken++) {
      // The place is exact also if the ring has changed its size.
      if (place.batches - before === taken) ({ row } = place);
      else if (communicator.isElastic) {
        throw invalidArgument(
          'In an elastic run ring.shardRows is for model.fitDataset with ring.callbacks(), without prefetch: else the ranks may count rows differently when one is lost.',
        );
      }
      if (row >= rows) return;
      const { rank, worldSize } = communicator;
      const count = Math.min(batchSize, Math.ceil((rows - row) / worldSize));
      const first = row + rank * count;
      row += batchSize * worldSize;
      const length = this.uneven ? Math.min(count, rows - first) : count;
      if (length <= 0) return;
      yield await this.read(Int32Array.from({ length }, (_, i) => order[(first + i) % rows]!));
    }
  }
}

/** The numbers of rows in the order in which an epoch takes them. Without a seed: as they are. */
export function orderOfEpoch(rows: number, seed: number | undefined, epoch: number): Int32Array {
  if (seed === undefined) return Int32Array.from({ length: rows }, (_, i) => i);
  const hash = createHash('sha256').update(`${seed} epoch ${epoch}`).digest();
  return permutation(rows, hash.readUIntBE(0, 6));
}

/** The numbers 0 … count − 1, in an order that depends only on the seed (Fisher and Yates). */
export function permutation(count: number, seed: number): Int32Array {
  const random = tf.randomUniform([count], 0, 1, 'float32', seed);
  const draws = random.dataSync().slice();
  random.dispose();
  const order = Int32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const other = Math.min(i, Math.floor(draws[i]! * (i + 1))); // rounding may make the draw 1
    [order[i], order[other]] = [order[other]!, order[i]!];
  }
  return order;
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` */
export function checkSeed(reshuffle: number | undefined): void {
  if (reshuffle === undefined || Number.isSafeInteger(reshuffle)) return;
  throw invalidArgument(`reshuffle is ${String(reshuffle)}; it must be a seed, which is a whole number.`);
}
