import { createHash } from 'node:crypto';
import { tf } from './tfjs';
import type { Communicator } from '../communicator/communicator';
import { isNumber, isOrNull, isText, isWith } from '../shape';
import { bytesOf } from '../core/bytes-of';
import { warn } from '../core/warn';

/** How many rows are hashed: enough to notice another order, few enough to cost little. */
const SAMPLED_ROWS = 16;

/** The most hashes that wait to be compared. A custom loop compares only before its first step. */
const MOST_HASHES = 100;

/**
 * Checks that the ranks pass the same data to `ring.shard`: shards of different data overlap, and leave rows out. The
 * hashes are sent with what the ranks compare anyway when a training begins and when an epoch ends.
 */
export class DataCheck {
  private static readonly all = new WeakMap<Communicator, DataCheck>();
  private hashes: string[] = [];
  /** Whether `ring.shard` or `ring.split` was called. */
  isDivided = false;
  private given: GivenData | undefined;

  private constructor(private readonly communicator: Communicator) {}

  static of(communicator: Communicator): DataCheck {
    const known = this.all.get(communicator) ?? new DataCheck(communicator);
    this.all.set(communicator, known);
    return known;
  }

  /**
   * Remembers data, which should be the same on all ranks, until the ranks compare.
   *
   * @param how What else should be the same: how they are divided.
   */
  note(tensors: readonly tf.Tensor[], how = ''): void {
    if (this.communicator.launched.worldSize === 1 || this.hashes.length === MOST_HASHES) return;
    this.hashes.push(`${hashOfRows(tensors)} ${how}`);
  }

  /**
   * Remembers what `model.fit` was given, until the ranks compare.
   *
   * @param tensors The data, or the first batch of a dataset.
   */
  noteGiven(tensors: readonly tf.Tensor[], batchSize: number): void {
    if (this.communicator.worldSize === 1) return;
    this.given = { batchSize, hash: this.isDivided ? null : hashOfRows(tensors) };
  }

  /** Takes what {@link noteGiven} has remembered since the last comparison; null if that is nothing. */
  takeGiven(): GivenData | null {
    const { given = null } = this;
    this.given = undefined;
    return given;
  }

  /** Warns if all ranks train on the same rows, or if some take more rows in a step than others. */
  compareGiven(all: readonly (GivenData | null)[]): void {
    const [first] = all;
    if (first == null) return;
    if (first.hash !== null && all.every(given => given?.hash === first.hash)) {
      warn(
        this.communicator,
        `All ${all.length} ranks train on the same rows, so together they do the work of one. Give each rank its part of the data: model.fit(...ring.shard(x, y), …) or model.fitDataset(ring.shard(dataset), …).`,
      );
    }
    const rank = all.findIndex(given => given !== null && given.batchSize !== first.batchSize);
    if (rank === -1) return;
    warn(
      this.communicator,
      `Rank 0 takes ${first.batchSize} rows in a step, but rank ${rank} takes ${all[rank]!.batchSize}. The gradients of the ranks have equal weights, so a row of the smaller batch counts more. Use the same batch size on all ranks.`,
    );
  }

  /** Takes the hashes since the last comparison. */
  take(): string[] {
    return this.hashes.splice(0);
  }

  /** Warns if the ranks had different data. `all` has the result of {@link take} on each rank. */
  compare(all: readonly (readonly string[])[]): void {
    // Sorted, because several datasets may be read in any order. Ranks may also have different numbers of datasets.
    const [first, ...others] = all.map(hashes => [...hashes].sort());
    const differs = (hashes: string[]) => hashes.length === first!.length && hashes.join() !== first!.join();
    const rank = 1 + others.findIndex(differs);
    if (rank === 0) return;
    warn(
      this.communicator,
      `Rank ${rank} gave other data to ring.shard or ring.shardRows than rank 0, the same rows in another order, or another seed. The shards then overlap, and some rows are never used. Load and shuffle the data in the same way on all ranks: ring.split shuffles and splits with one seed. If the data differ on purpose, do not shard them, or pass { check: false }.`,
    );
  }
}

/** What `model.fit` was given on a rank. */
export interface GivenData {
  readonly batchSize: number;
  /** The hash of the data. Null if the rank has divided them. */
  readonly hash: string | null;
}

export const isGivenData = isWith<GivenData>({ batchSize: isNumber, hash: isOrNull(isText) });

/** A hash of some rows. */
export function hashOfRows(tensors: readonly tf.Tensor[]): string {
  const hash = createHash('sha256');
  for (const tensor of tensors) {
    const rows = tensor.shape[0] ?? 1;
    const sampled = Math.min(rows, SAMPLED_ROWS);
    const indices = Int32Array.from({ length: sampled }, (_, i) => Math.floor((i * rows) / sampled));
    hash.update(`${tensor.dtype} [${tensor.shape.join()}]\n`).update(rowsOf(tensor, indices));
  }
  return hash.digest('hex').slice(0, 16);
}

function rowsOf(tensor: tf.Tensor, indices: Int32Array): Uint8Array | string {
  const { dtype, shape, size } = tensor;
  if (dtype === 'string') {
    const texts = tensor.dataSync<'string'>(); // no kernel gathers rows of strings
    const perRow = size / Math.max(1, shape[0] ?? 1);
    return JSON.stringify(Array.from(indices, row => texts.slice(row * perRow, (row + 1) * perRow)));
  }
  if (dtype === 'complex64') return ''; // no kernel gathers rows of them either; they are not compared
  if (shape.length === 0) return bytesOf(tensor.dataSync());
  // Not within tidy, which would look for tensors among the values.
  const sample = tf.tidy(() => tf.gather(tensor, tf.tensor1d(indices, 'int32')));
  const bytes = bytesOf(sample.dataSync()).slice();
  sample.dispose();
  return bytes;
}
