import { tf } from './tfjs';
import { invalidArgument } from '../errors';

/** What `model.fit` takes as x or y: a tensor, or several of the same number of rows. */
export type TensorData = tf.Tensor | tf.Tensor[] | { [input: string]: tf.Tensor };

/** A rank's place among those who share the data. */
export interface ShardPlace {
  readonly rank: number;
  readonly worldSize: number;
}

/**
 * This rank's rows of tensors: rows rank, rank + worldSize, and so on. All ranks get as many, and so take as many
 * steps: if the rows do not divide, the last ranks get a row from the start once more. The tensors are new; the inputs
 * stay the caller's.
 */
export function shardTensors<T extends TensorData[]>(data: T, place: ShardPlace): T {
  const tensors = data.flatMap(each => (each instanceof tf.Tensor ? [each] : Object.values(each ?? {})));
  if (tensors.length === 0 || tensors.some(tensor => !(tensor instanceof tf.Tensor))) {
    throw invalidArgument(
      'ring.shard takes a dataset, or tensors: one, an array of them, or a record of them by name.',
    );
  }
  const rows = tensors[0]?.shape[0];
  if (rows === undefined || tensors.some(tensor => tensor.shape[0] !== rows)) {
    const counts = tensors.map(tensor => tensor.shape[0] ?? 'no').join(', ');
    throw invalidArgument(`ring.shard takes tensors with the same number of rows; these have ${counts}.`);
  }
  if (rows === 0) throw invalidArgument('ring.shard was given tensors without rows.');
  const count = Math.ceil(rows / place.worldSize);
  const indices = Int32Array.from({ length: count }, (_, i) => (place.rank + i * place.worldSize) % rows);
  return tf.tidy(() => {
    const selected = tf.tensor1d(indices, 'int32');
    const take = (tensor: tf.Tensor) => tf.gather(tensor, selected);
    return data.map(each => {
      if (each instanceof tf.Tensor) return take(each);
      if (Array.isArray(each)) return each.map(take);
      return Object.fromEntries(Object.entries(each).map(([name, tensor]) => [name, take(tensor)]));
    }) as T;
  });
}

/**
 * This rank's elements of a dataset (batches, if it is batched): elements rank, rank + worldSize, and so on. All ranks
 * get as many: of an incomplete last group, ranks without an element get one of the others' once more. Every rank reads
 * the whole source and disposes what is not its own, so the source must give the same elements in the same order
 * everywhere.
 */
export function shardDataset<T extends tf.TensorContainer>(
  dataset: tf.data.Dataset<T>,
  place: ShardPlace,
): tf.data.Dataset<T> {
  return tf.data.generator<T>((async () => {
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
        const mine = group[place.rank % group.length]!;
        for (const other of group) if (other !== mine) tf.dispose(other);
        yield mine;
        if (group.length < place.worldSize) return;
      }
    }
    return own();
  }) as never);
}
