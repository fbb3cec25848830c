/**
 * A program that tries the backend that its first argument names, as a program in the folder of the second one finds
 * it, and prints the result as one line of JSON. If the backend fails, it prints why, and ends with exit code 1.
 */
import { type BackendName, loadBackend } from './backend';
import { tf } from './tfjs';

const SIZE = 1024;
/** No further round starts after this time. */
const ENOUGH_MS = 300;
const TOLERANCE = 1e-3;

async function main(backend: BackendName, folder: string): Promise<void> {
  process.argv[1] = folder; // where loadBackend() looks for packages
  await loadBackend({ backend });
  const own = tf.getBackend();
  const gigaflops = timeProduct();
  const gradient = convolutionGradient();
  await tf.setBackend('cpu');
  const expected = convolutionGradient();
  const largest = Math.max(...expected.map(Math.abs));
  const error = Math.max(...expected.map((value, i) => Math.abs(value - gradient[i]!))) / largest;
  if (!(error < TOLERANCE)) throw new Error(`its gradient of a convolution is wrong by ${error} of the largest value`);
  await tf.setBackend(own);
  const native = tf.backend() as { binding?: { TF_Version?: string }; isUsingGpuDevice?: boolean };
  const version = native.binding?.TF_Version ?? tf.version.tfjs;
  console.log(JSON.stringify({ version, device: native.isUsingGpuDevice ? 'GPU' : 'CPU', gigaflops, error }));
}

/** Gigaflops of a matrix product whose result is known: rows of one number each, times columns of ones. */
function timeProduct(): number {
  const rows = tf.mul(tf.ones([SIZE, SIZE]), tf.reshape(tf.range(0, SIZE), [SIZE, 1])) as tf.Tensor2D;
  const columns = tf.ones([SIZE, SIZE]) as tf.Tensor2D;
  let best = Infinity;
  for (const begin = performance.now(); performance.now() - begin < ENOUGH_MS;) {
    const start = performance.now();
    const product = tf.matMul(rows, columns);
    const last = product.dataSync().at(-1);
    best = Math.min(best, performance.now() - start);
    product.dispose();
    if (last !== (SIZE - 1) * SIZE) throw new Error(`its matrix product has ${last} instead of ${(SIZE - 1) * SIZE}`);
  }
  tf.dispose([rows, columns]);
  return Number(((2 * SIZE ** 3) / best / 1e6).toPrecision(2));
}

function convolutionGradient(): Float32Array {
  return tf.tidy(() => {
    const wave = (shape: number[], pace: number) =>
      tf.reshape(tf.sin(tf.mul(tf.range(0, tf.util.sizeFromShape(shape)), pace)), shape);
    const images = wave([2, 8, 8, 3], 0.7) as tf.Tensor4D;
    const filter = wave([3, 3, 3, 4], 0.3) as tf.Tensor4D;
    const loss = (weights: tf.Tensor) =>
      tf.sum(tf.square(tf.conv2d(images, weights as tf.Tensor4D, 1, 'same'))) as tf.Scalar;
    return tf.grad(loss)(filter).dataSync().slice() as Float32Array;
  });
}

main(process.argv[2] as BackendName, process.argv[3]!).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : String(error));
  process.exit(1);
});
