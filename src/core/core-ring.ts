import { checkOptions } from '../check-options';
import { Communicator, type ConnectInput, Purpose } from '../communicator/communicator';
import type { CoreCheckpointOptions } from './core-checkpoint-options';
import { CoreCheckpoint, type TrainedArrays } from './core-checkpoint';
import { averageArrays, broadcastArrays, type NamedArrays, namedArraysOf, verifyArrays } from './named-arrays';
import { type GradientOptions, RingGradients, type Shapes } from './ring-gradients';

/** Why a run whose launcher has `--min` cannot go on. */
const ELASTIC =
  'gradring/core does not support elastic runs: a rank that is started again could not take over the weights. Run it without --min and --max-restarts, and save checkpoints.';

/**
 * A {@link Communicator} that trains typed arrays: what a training script with any array library holds. Made by
 * `connect` of `gradring/core`.
 *
 * ```ts
 * const weights = { w: Float32Array.of(1 + core.rank) };
 * await core.broadcastVariables(weights);
 * const gradients = core.gradients({ w: [1] }, { compression: noCompression() });
 * const { w } = await gradients.step({ w: Float32Array.of(core.rank) });
 * console.log(weights.w[0]! - w[0]!); // 0.5
 * gradients.dispose();
 * ```
 */
export class CoreRing extends Communicator {
  /** Joins the ring, as `connect` of `gradring/core`. */
  static override async connect(input: ConnectInput = {}): Promise<CoreRing> {
    return new this(...(await Communicator.start(input, ELASTIC)));
  }

  /**
   * Prepares the exchange of gradients with these shapes; see {@link RingGradients}. Nothing is sent before the first
   * step.
   *
   * ```ts
   * const gradients = core.gradients({ w: [784, 10], b: [10] }, { momentum: 0.9, compression: lowRank() });
   * gradients.dispose();
   * ```
   *
   * @param shapes By name, in the same order on all ranks. A scalar has the shape `[]`. Compressions need the shapes:
   *   they send tensors of one dimension, and small ones, whole.
   * @throws GradringError `ERR_INVALID_ARGUMENT` for shapes or options that are wrong.
   */
  gradients<N extends string>(
    shapes: Shapes<N>,
    options?: GradientOptions & { readonly onNonFinite?: 'error' },
  ): RingGradients<N>;
  gradients<N extends string>(shapes: Shapes<N>, options: GradientOptions): RingGradients<N, null>;
  gradients(shapes: Shapes, options?: GradientOptions): RingGradients<string, null> {
    return new RingGradients(this, shapes, options);
  }

  /**
   * Saves a training to disk and resumes it; see {@link CoreCheckpoint}.
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` for arrays or options that are wrong.
   */
  checkpoint(source: TrainedArrays, options: CoreCheckpointOptions): CoreCheckpoint {
    return new CoreCheckpoint(this, source, options);
  }

  /**
   * Gives every rank the root's values of named arrays, in place, after it has checked that names, types, lengths and
   * order are the same. Call it before the first step.
   *
   * ```ts
   * const weights = { w: Float32Array.of(1 + core.rank, 2) };
   * await core.broadcastVariables(weights);
   * console.log(weights.w); // Float32Array(2) [ 1, 2 ]
   * ```
   *
   * @throws GradringError `ERR_MODEL_MISMATCH`, naming the first difference.
   */
  async broadcastVariables(arrays: NamedArrays, options: { readonly root?: number } = {}): Promise<void> {
    const variables = namedArraysOf(arrays, 'ring.broadcastVariables');
    checkOptions('ring.broadcastVariables', options, { root: true });
    await broadcastArrays(this, variables, { root: options.root ?? 0, purpose: Purpose.BroadcastVariables });
  }

  /**
   * Averages named arrays of floats over the ranks, in place, except those that are equal already. Arrays of other
   * types must be equal. For what no gradient trains, such as the moving statistics of batch norm.
   *
   * ```ts
   * const moving = { mean: Float32Array.of(core.rank) };
   * await core.averageVariables(moving);
   * console.log(moving.mean); // Float32Array(1) [ 0.5 ]
   * ```
   *
   * @throws GradringError `ERR_MODEL_MISMATCH` if names, types, lengths or order differ; `ERR_INVALID_ARGUMENT` if an
   *   array of another type differs.
   */
  async averageVariables(arrays: NamedArrays): Promise<void> {
    await averageArrays(this, namedArraysOf(arrays, 'ring.averageVariables'));
  }

  /**
   * Compares named arrays of all ranks, bit for bit, and returns their hash (SHA-256, in hexadecimal).
   *
   * ```ts
   * const hash = await core.verifyReplicas({ w: Float32Array.of(1, 2) });
   * console.log(hash.length); // 64
   * ```
   *
   * @throws GradringError `ERR_REPLICAS_DIVERGED`, naming the first rank that differs from rank 0, and the array.
   */
  async verifyReplicas(arrays: NamedArrays): Promise<string> {
    return verifyArrays(this, namedArraysOf(arrays, 'ring.verifyReplicas'));
  }
}

/**
 * Joins the ring that `gradring run`, torchrun's variables or the options describe. Without any of them the process is
 * alone: a ring of one, without sockets. The options are those of `connect` of `gradring`. On one of two ranks:
 *
 * ```ts
 * const ring = await connect({ timeoutMs: 60_000 });
 * console.log(ring.rank, ring.worldSize); // 0 2
 * await ring.close();
 * ```
 *
 * @throws GradringError see {@link Communicator.connect}; and `ERR_INVALID_ARGUMENT` in an elastic run.
 */
export function connect(input: ConnectInput = {}): Promise<CoreRing> {
  return CoreRing.connect(input);
}
