import { tf } from './tfjs';

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
