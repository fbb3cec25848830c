import { tf } from './tfjs';
import { checkOptions } from '../check-options';
import { Communicator, Purpose } from '../communicator/communicator';
import type { ConnectInput } from '../communicator/communicator';
import {
  averageVariables,
  broadcastVariables,
  checkSameVariables,
  variablesOf,
  verifyReplicas,
  type Variables,
} from './replicas';
import { invalidArgument } from '../errors';
import { Checkpoint } from './checkpoint';
import { DataCheck } from './data-check';
import { type JoinedPosition, LiveTraining } from './live-training';
import { type Trained, trainedOf } from './trained';
import type { CheckpointOptions } from './checkpoint-options';
import { callbacksOf } from './fit-callbacks';
import type { CallbackOptions } from './ring-callback';
import { RingOptimizer, type WrapOptions } from './ring-optimizer';
import {
  shardDataset,
  type ShardOptions,
  shardTensors,
  type Split,
  type SplitOptions,
  splitTensors,
  type TensorData,
} from './shard';

/** A {@link Communicator} that knows TensorFlow.js: what a training script holds. Made by {@link connect}. */
export class Ring extends Communicator {
  static override async connect(input: ConnectInput = {}): Promise<Ring> {
    return new this(...(await Communicator.start(input)));
  }

  /** Makes an optimizer apply the mean gradient of all ranks; see {@link RingOptimizer}. */
  wrap(optimizer: tf.Optimizer, options?: WrapOptions): RingOptimizer {
    return new RingOptimizer(this, optimizer, options);
  }

  /**
   * For `model.fit`'s `callbacks`; see {@link RingCallback}. Pass your own beside it, `[...ring.callbacks(), yours]`,
   * or as `{ also: [yours] }`: either way they are called after the ring's.
   */
  callbacks(options: CallbackOptions = {}): tf.Callback[] {
    return callbacksOf(this, options);
  }

  /**
   * Saves a training to disk and resumes it: of a model, compiled with a wrapped optimizer, or of a custom loop's
   * variables and optimizer; see {@link Checkpoint}. Give it to {@link callbacks} for `model.fit` to save by itself.
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` for options that cannot be meant.
   */
  checkpoint(source: tf.LayersModel | Trained, options: CheckpointOptions): Checkpoint {
    return new Checkpoint(this, source, options);
  }

  /**
   * Begins a training, of a model compiled with a wrapped optimizer, or of a custom loop: gives all ranks rank 0's
   * weights. In an elastic run a process that takes the place of a lost one waits here until the others are at the end
   * of an epoch (or call {@link commit}), gets their state, and learns where they are. {@link Checkpoint.resume} does
   * the same, and needs no `join` beside it.
   *
   * @throws GradringError `ERR_MODEL_MISMATCH` if the model is another one.
   */
  async join(source: tf.LayersModel | Trained): Promise<JoinedPosition> {
    return LiveTraining.of(this).join(trainedOf(source, 'ring.join'));
  }

  /**
   * Lets in who waits in {@link join}, if the run is elastic. For custom loops, on all ranks alike, between two steps;
   * `model.fit` does it at the end of each epoch.
   *
   * @param state What those who join get, beside the state of the training: small and plain JSON.
   */
  async commit(state?: unknown): Promise<void> {
    await LiveTraining.of(this).commitLoop(state);
  }

  /**
   * This rank's part of tensors or of a dataset; all ranks get the same number of rows. Which rows a rank has never
   * changes: it depends on {@link launched}. All ranks must pass the same data in the same order. The ring compares a
   * sample of it, once, when the training begins (of a dataset, after the first epoch), and warns if it differs.
   *
   * @param options `{ check: false }` turns the comparison off.
   * @throws GradringError `ERR_INVALID_ARGUMENT` for what is no data, or has different numbers of rows.
   */
  shard<T extends tf.TensorContainer>(dataset: tf.data.Dataset<T>, options?: ShardOptions): tf.data.Dataset<T>;
  shard<X extends TensorData, Y extends TensorData>(x: X, y: Y, options?: ShardOptions): [X, Y];
  shard<X extends TensorData>(x: X, options?: ShardOptions): X;
  shard(first: TensorData | tf.data.Dataset<tf.TensorContainer>, ...rest: unknown[]): unknown {
    const check = DataCheck.of(this);
    const isDataset = first instanceof tf.data.Dataset;
    const last = rest.at(-1);
    const isOptions = isShardOptions(last) || (last === undefined && rest.length > (isDataset ? 0 : 1));
    const options = isOptions ? ((rest.pop() ?? {}) as ShardOptions) : {};
    const others = rest as TensorData[];
    if (others.length > 1) {
      throw invalidArgument(
        'ring.shard takes x and y. Put several inputs into an array or a record: ring.shard([a, b], y).',
      );
    }
    if (isDataset) {
      if (others.length > 0) throw invalidArgument('ring.shard takes one dataset, which holds both x and y.');
      return shardDataset(first, this.launched, check, options);
    }
    const sharded = shardTensors([first, ...others], this.launched, check, options);
    return others.length === 0 ? sharded[0] : sharded;
  }

  /**
   * Shuffles rows with one seed for all ranks, keeps some for validation, and gives this rank its shard of the rest: so
   * no row that one rank validates on is trained on by another.
   *
   * ```js
   * const { train, validation } = ring.split(x, y, { validation: 0.2, seed: 7 });
   * await model.fit(...train, { validationData: validation, epochs, callbacks: ring.callbacks() });
   * ```
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` if no row would be left for one of the two.
   */
  split<X extends TensorData, Y extends TensorData>(x: X, y: Y, options: SplitOptions): Split<X, Y> {
    return splitTensors(x, y, this.launched, DataCheck.of(this), options);
  }

  /**
   * Gives every rank the root's values of a model's weights or of variables, after checking that names, shapes and
   * order agree. `ring.callbacks()` does it for `model.fit`; a custom loop calls it before its first step.
   *
   * @throws GradringError `ERR_MODEL_MISMATCH`, naming the first difference.
   */
  async broadcastVariables(
    source: tf.LayersModel | Variables,
    options: { readonly root?: number } = {},
  ): Promise<void> {
    const variables = variablesOf(source, 'ring.broadcastVariables');
    checkOptions('ring.broadcastVariables', options, { root: true });
    const purpose = Purpose.BroadcastVariables;
    await checkSameVariables(this, variables, purpose);
    await broadcastVariables(this, variables, { root: options.root ?? 0, purpose });
  }

  /**
   * Averages float32 variables over the ranks, but for those that are equal already. `ring.callbacks()` does it for
   * batch norm's moving statistics after each epoch; a custom loop does it when it wants equal ones.
   */
  async averageVariables(source: tf.LayersModel | Variables): Promise<void> {
    await averageVariables(this, variablesOf(source, 'ring.averageVariables'), Purpose.AverageVariables);
  }

  /**
   * Compares the weights of all ranks, bit for bit, and returns a hash of them (SHA-256, in hexadecimal).
   *
   * @throws GradringError `ERR_REPLICAS_DIVERGED`, naming the first rank that differs from rank 0, and the variable.
   */
  async verifyReplicas(source: tf.LayersModel | Variables): Promise<string> {
    const variables = variablesOf(source, 'ring.verifyReplicas');
    return verifyReplicas(this, variables, { when: 'at this point', purpose: Purpose.VerifyReplicas });
  }
}

/** A plain object without tensors. */
function isShardOptions(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return false;
  return Object.values(value).every(each => !(each instanceof tf.Tensor));
}

/**
 * Joins the ring that `gradring run`, torchrun's variables or the options describe. Alone, it is a ring of one.
 *
 * @throws GradringError see {@link Communicator.connect}.
 */
export function connect(input: ConnectInput = {}): Promise<Ring> {
  return Ring.connect(input);
}
