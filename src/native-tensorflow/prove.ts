import { ownFile } from '../own-file';
import { linkFailure, runProgram } from './run-program';

/** What a TensorFlow reported and computed when it was tried. */
export interface Proof {
  /** TensorFlow's own version. */
  readonly version: string;
  /** The device that it computes on. */
  readonly device: 'CPU' | 'GPU';
  /** Billions of operations a second, in the product of two 1024 × 1024 matrices. */
  readonly gigaflops: number;
  /**
   * The largest difference between a convolution's gradient and the one that the plain JavaScript backend computes,
   * relative to the largest value.
   */
  readonly error: number;
}

/**
 * Tries a backend in a process of its own, as a program of the working directory's project would find it: it computes
 * and checks a matrix product and the gradient of a convolution.
 *
 * @throws GradringError `ERR_TENSORFLOW`, which says what went wrong.
 */
export async function prove(name: string): Promise<Proof> {
  const script = ownFile('tensorflow/prove-backend.js');
  const { code, stdout, reason } = await runProgram(process.execPath, [script, name, process.cwd()]);
  if (code !== 0) throw linkFailure(`${name} does not work: ${reason}`);
  return JSON.parse(stdout.trim().split('\n').at(-1)!) as Proof;
}
