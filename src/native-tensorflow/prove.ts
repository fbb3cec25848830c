import path from 'node:path';
import { linkFailure } from './link-failure';
import { runProgram } from './run-program';

/** What a TensorFlow said and computed when it was tried. */
export interface Proof {
  /** TensorFlow's own version. */
  readonly version: string;
  /** Where it computes. */
  readonly device: 'CPU' | 'GPU';
  /** Of the product of two 1024 × 1024 matrices; billions of operations a second. */
  readonly gigaflops: number;
  /**
   * Largest difference of a convolution's gradient from that of the plain JavaScript backend, relative to the largest
   * value.
   */
  readonly error: number;
}

/**
 * Tries a backend in a process of its own: one matrix product, one convolution's gradient, both checked.
 *
 * @throws GradringError `ERR_TENSORFLOW`, with what went wrong.
 */
export async function prove(name: string): Promise<Proof> {
  const script = path.join(__dirname, '../tensorflow/prove-backend.js');
  const { code, stdout, reason } = await runProgram(process.execPath, [script, name]);
  if (code !== 0) throw linkFailure(`${name} does not work: ${reason}`);
  return JSON.parse(stdout.trim().split('\n').at(-1)!) as Proof;
}
