/**
 * What all ranks do together for one tensor in one step. The requests of all tensors travel together. All ranks must
 * make the same requests for a tensor, in the same order.
 */
export interface CompressionRing {
  readonly rank: number;
  readonly worldSize: number;
  /**
   * Sends a message to all ranks (ring all-gather), and reads those of all ranks, also its own, in the order of ranks.
   * If `read` throws, the step fails on all ranks, with an error that names the rank of the message.
   */
  gather(message: Uint8Array, read: (message: Uint8Array, rank: number) => void): Promise<void>;
  /** Returns the mean over all ranks (dense ring all-reduce). The arrays of all ranks have the same length. */
  mean(values: Float32Array): Promise<Float32Array>;
  /** Returns the largest of each element over all ranks. For a few numbers. */
  largest(values: Float32Array): Promise<Float32Array>;
}

/** One tensor in one step. All arrays are views, to be used only until the step is over. */
export interface CompressedTensor {
  readonly shape: readonly number[];
  /**
   * The mean gradient of this rank. With {@link Compressor.errorFeedback}, what was kept is added. It must not be
   * changed.
   */
  readonly values: Float32Array;
  /** Zero at first. To be filled with the mean over all ranks, as well as it is known: the same bits on all ranks. */
  readonly mean: Float32Array;
  /**
   * For {@link Compressor.errorFeedback}: zero at first, to be filled with what of the values has become part of the
   * mean. The rest is kept, and added to the gradient of the next step. If possible, fill it before the last request:
   * in an elastic run that request may fail on this rank only.
   */
  readonly sent: Float32Array;
  /**
   * As long as {@link Compressor.sharedLength} says. Zero before the first step. What is written here is there in the
   * next step, if this one succeeds, and is saved in checkpoints.
   */
  readonly shared: Float32Array;
  /** Numbers from 0 up to but not including 1. They depend on the seed, the step, the tensor and the rank only. */
  readonly random: () => number;
}

/**
 * A method of gradient compression. It runs on the comm thread of each rank.
 *
 * The exchange does the rest: clipping, momentum (that of the average, the same on all ranks), steps in which a
 * gradient is not finite, checkpoints, and steps that run again in another ring of an elastic run. A step may run
 * again, so a compressor keeps nothing between steps but the residual and what all ranks share, and does not see the
 * momentum. So a variant of DGC cannot be written as one. Small tensors and those of one dimension do not reach
 * it: {@link Compressor.small} has them, or they are averaged.
 */
export interface Compressor {
  /** Whether what a step does not send is kept, and added to the gradient of the next. */
  readonly errorFeedback: boolean;
  /**
   * What averages tensors of one dimension and those below `denseBelow`. It keeps nothing that all ranks share.
   * Default: they are averaged as they are.
   */
  readonly small?: Compressor;
  /** Says how many numbers are kept for a tensor, the same on all ranks, between steps. Default 0. */
  sharedLength?(shape: readonly number[]): number;
  /**
   * Says how many bits a message for a tensor of that shape is expected to have. It tells what
   * {@link CompressionRing.gather} costs, which grows with the ranks. A step in which the dense ring is expected to
   * take less time averages the tensor as it is, and nothing of it is kept. Default: never.
   */
  messageBits?(shape: readonly number[]): number;
  /**
   * Computes the mean over all ranks.
   *
   * @throws any error. The step then fails on all ranks.
   */
  average(tensor: CompressedTensor, ring: CompressionRing): Promise<void>;
}

/**
 * Makes a compressor. What a module for {@link customCompression} exports. It is called with the options, and with the
 * shapes of the tensors that {@link Compressor.average} will get. `ring.wrap` calls it without shapes, to check it.
 */
export type CompressorFactory = (options: never, shapes: readonly (readonly number[])[]) => Compressor;

/** Gradients that are averaged as they are. */
export const PLAIN: Compressor = {
  errorFeedback: false,
  async average({ values, mean }, ring) {
    mean.set(await ring.mean(values));
  },
};
