import { tf } from './tfjs';
import { Communicator } from '../communicator/communicator';
import type { ConnectInput } from '../communicator/connect-options';
import {
  averageVariables,
  broadcastVariables,
  checkSameVariables,
  variablesOf,
  verifyReplicas,
  type Variables,
} from './replicas';
import { Checkpoint } from './checkpoint';
import { type JoinedPosition, LiveTraining } from './live-training';
import { type Trained, trainedOf } from './trained';
import type { CheckpointOptions } from './checkpoint-options';
import { type CallbackOptions, callbacksOf } from './ring-callback';
import { RingOptimizer, type WrapOptions } from './ring-optimizer';
import { shardDataset, shardTensors, type TensorData } from './shard';

/** A {@link Communicator} that knows TensorFlow.js: what a training script holds. Made by {@link connect}. */
export class Ring extends Communicator {
  static override async connect(input: ConnectInput = {}): Promise<Ring> {
    return new this(...(await Communicator.start(input)));
  }

  /** Makes an optimizer apply the mean gradient of all ranks; see {@link RingOptimizer}. */
  wrap(optimizer: tf.Optimizer, options?: WrapOptions): RingOptimizer {
    return new RingOptimizer(this, optimizer, options);
  }

  /** For `model.fit`'s `callbacks`, first or alone; see {@link RingCallback}. Pass your own as `{ also: [ … ] }`. */
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
    return LiveTraining.of(this).join(trainedOf(source));
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
   * This rank's part of tensors or of a dataset; all ranks get as many rows. Who has which never changes: it goes by
   * {@link launched}. See {@link shardTensors}, {@link shardDataset}.
   */
  shard<T extends tf.TensorContainer>(dataset: tf.data.Dataset<T>): tf.data.Dataset<T>;
  shard<X extends TensorData, Y extends TensorData>(x: X, y: Y): [X, Y];
  shard<X extends TensorData>(x: X): X;
  shard(first: TensorData | tf.data.Dataset<tf.TensorContainer>, second?: TensorData): unknown {
    if (first instanceof tf.data.Dataset) return shardDataset(first, this.launched);
    if (second === undefined) return shardTensors([first], this.launched)[0];
    return shardTensors([first, second], this.launched);
  }

  /**
   * Gives every rank the root's values of a model's weights or of variables, after checking that names, shapes and
   * order agree. `ring.callbacks()` does it for `model.fit`; a custom loop calls it before its first step.
   *
   * @throws GradringError `ERR_MODEL_MISMATCH`, naming the first difference.
   */
  async broadcastVariables(source: tf.LayersModel | Variables, { root = 0 }: { root?: number } = {}): Promise<void> {
    const variables = variablesOf(source);
    await checkSameVariables(this, variables);
    await broadcastVariables(this, variables, root);
  }

  /**
   * Averages float32 variables over the ranks, but for those that are equal already. `ring.callbacks()` does it for
   * batch norm's moving statistics after each epoch; a custom loop does it when it wants equal ones.
   */
  async averageVariables(source: tf.LayersModel | Variables): Promise<void> {
    await averageVariables(this, variablesOf(source));
  }

  /**
   * Compares the weights of all ranks, bit for bit, by their SHA-256, and returns it.
   *
   * @throws GradringError `ERR_REPLICAS_DIVERGED`, naming the first rank that differs from rank 0.
   */
  async verifyReplicas(source: tf.LayersModel | Variables): Promise<string> {
    return verifyReplicas(this, variablesOf(source), 'at this point');
  }
}

/**
 * Joins the ring that `gradring run`, torchrun's variables or the options describe. Alone, it is a ring of one.
 *
 * @throws GradringError see {@link Communicator.connect}.
 */
export function connect(input: ConnectInput = {}): Promise<Ring> {
  return Ring.connect(input);
}
