import { tf } from './tfjs';
import { checkOptions } from '../check-options';
import { Communicator, Purpose } from '../communicator/communicator';
import type {
  BroadcastOptions,
  CallOptions,
  ConnectInput,
  GatherOptions,
  MessageOptions,
  NumericArray,
  ReduceOptions,
  RootedGatherOptions,
  RootedReduceOptions,
  ScatterOptions,
} from '../communicator/communicator';
import { averageVariables, broadcastVariables, variablesOf, verifyReplicas, type Variables } from './variables';
import { checkSameVariables } from '../core/replicas';
import { invalidArgument } from '../errors';
import { requireRank } from '../communicator/collective-requests';
import { evaluateTogether, predictTogether } from './compute-together';
import { type PredictOptions, wholeData, type WholeDataOptions, type WholeInput } from './whole-data';
import { Checkpoint } from './checkpoint';
import { DataCheck } from './data-check';
import { type JoinedPosition, LiveTraining } from './live-training';
import { requireRoundOver } from './local-steps';
import { sentFrom, sentTensor } from './tensor-collectives';
import { type Trained, trainedOf } from './trained';
import type { CheckpointOptions } from './checkpoint-options';
import { callbacksOf, isFitting } from './fit-callbacks';
import type { CallbackOptions } from './ring-callback';
import { RingOptimizer } from './ring-optimizer';
import { RowDataset, type RowsOptions } from './row-dataset';
import {
  shardDataset,
  type ShardOptions,
  shardTensors,
  type Split,
  type SplitOptions,
  splitTensors,
  type TensorData,
} from './shard';
import { type BatchNormalizationConfig, syncBatchNormalization } from './sync-batch-norm';
import type { WrapOptions } from './wrap-options';

/**
 * A {@link Communicator} that knows TensorFlow.js: what a training script holds. Made by {@link connect}.
 *
 * ```ts
 * const model = tf.sequential({ layers: [tf.layers.dense({ inputShape: [8], units: 1 })] });
 * model.compile({ optimizer: ring.wrap(tf.train.momentum(0.01, 0.9)), loss: 'meanSquaredError' });
 * await model.fit(...ring.shard(x, y), { epochs, callbacks: ring.callbacks() });
 * await ring.verifyReplicas(model); // throws if the ranks had different weights
 * ```
 */
export class Ring extends Communicator {
  /** See {@link connect}. */
  static override async connect(input: ConnectInput = {}): Promise<Ring> {
    return new this(...(await Communicator.start(input)));
  }

  /**
   * {@link Communicator.allReduce}, which also takes a tensor of float32, int32 or bool, and then returns a new tensor
   * of the same shape and type. The shape must be the same on all ranks; only the number of elements is compared. The
   * given tensor does not change. Dispose of both. So do all collectives of a ring that return arrays as long as their
   * input: {@link broadcast}, {@link sendReceive}, {@link reduce}, {@link allGather}, {@link gather}, {@link scatter},
   * {@link allToAll}.
   *
   * ```ts
   * const mean = await ring.allReduce(tf.tensor2d([[ring.rank, 2]]), { op: 'mean' });
   * console.log(mean.shape, mean.arraySync()); // [ 1, 2 ] [ [ 0.5, 2 ] ]
   * ```
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` for tensors of strings or complex numbers, for one that was disposed
   *   of, and for a sum, product or mean of bool.
   */
  override async allReduce<T extends NumericArray | tf.Tensor>(value: T, options: ReduceOptions = {}): Promise<T> {
    const sent = sentTensor('ring.allReduce', value, options, true);
    return sent.resultOf(await super.allReduce(sent.array, options));
  }

  /** {@link allReduce}; the thread sleeps meanwhile. */
  override allReduceSync<T extends NumericArray | tf.Tensor>(value: T, options: ReduceOptions = {}): T {
    const sent = sentTensor('ring.allReduce', value, options, true);
    return sent.resultOf(super.allReduceSync(sent.array, options));
  }

  /** {@link Communicator.broadcast}; also of tensors, as {@link allReduce}. */
  override async broadcast<T extends NumericArray | tf.Tensor>(value: T, options: BroadcastOptions = {}): Promise<T> {
    const sent = sentTensor('ring.broadcast', value, options);
    return sent.resultOf(await super.broadcast(sent.array, options));
  }

  /** {@link broadcast}; the thread sleeps meanwhile. */
  override broadcastSync<T extends NumericArray | tf.Tensor>(value: T, options: BroadcastOptions = {}): T {
    const sent = sentTensor('ring.broadcast', value, options);
    return sent.resultOf(super.broadcastSync(sent.array, options));
  }

  /** {@link Communicator.sendReceive}; also of tensors, as {@link allReduce}. */
  override async sendReceive<T extends NumericArray | tf.Tensor>(value: T, options: CallOptions = {}): Promise<T> {
    const sent = sentTensor('ring.sendReceive', value);
    return sent.resultOf(await super.sendReceive(sent.array, options));
  }

  /** {@link sendReceive}; the thread sleeps meanwhile. */
  override sendReceiveSync<T extends NumericArray | tf.Tensor>(value: T, options: CallOptions = {}): T {
    const sent = sentTensor('ring.sendReceive', value);
    return sent.resultOf(super.sendReceiveSync(sent.array, options));
  }

  /** {@link Communicator.send}; also of tensors, whose elements the other rank receives as an array. */
  override async send(value: NumericArray | tf.Tensor, to: number, options: MessageOptions = {}): Promise<void> {
    return super.send(sentTensor('ring.send', value).array, to, options);
  }

  /** {@link send}; the thread sleeps meanwhile. Two ranks that both send so before they receive wait for each other. */
  override sendSync(value: NumericArray | tf.Tensor, to: number, options: MessageOptions = {}): void {
    super.sendSync(sentTensor('ring.sendSync', value).array, to, options);
  }

  /** {@link Communicator.reduce}; also of tensors, as {@link allReduce}. */
  override async reduce<T extends NumericArray | tf.Tensor>(
    value: T,
    options: RootedReduceOptions = {},
  ): Promise<T | undefined> {
    const sent = sentTensor('ring.reduce', value, options, true);
    const reduced = await super.reduce(sent.array, options);
    return reduced && sent.resultOf(reduced);
  }

  /** {@link reduce}; the thread sleeps meanwhile. */
  override reduceSync<T extends NumericArray | tf.Tensor>(value: T, options: RootedReduceOptions = {}): T | undefined {
    const sent = sentTensor('ring.reduce', value, options, true);
    const reduced = super.reduceSync(sent.array, options);
    return reduced && sent.resultOf(reduced);
  }

  /** {@link Communicator.allGather}; also of tensors of one shape, as {@link allReduce}. */
  override async allGather<T extends NumericArray | tf.Tensor>(value: T, options: GatherOptions = {}): Promise<T[]> {
    const sent = sentTensor('ring.allGather', value, options);
    return (await super.allGather(sent.array, options)).map(sent.resultOf);
  }

  /** {@link allGather}; the thread sleeps meanwhile. */
  override allGatherSync<T extends NumericArray | tf.Tensor>(value: T, options: GatherOptions = {}): T[] {
    const sent = sentTensor('ring.allGather', value, options);
    return super.allGatherSync(sent.array, options).map(sent.resultOf);
  }

  /** {@link Communicator.gather}; also of tensors of one shape, as {@link allReduce}. */
  override async gather<T extends NumericArray | tf.Tensor>(
    value: T,
    options: RootedGatherOptions = {},
  ): Promise<T[] | undefined> {
    const sent = sentTensor('ring.gather', value, options);
    return (await super.gather(sent.array, options))?.map(sent.resultOf);
  }

  /** {@link gather}; the thread sleeps meanwhile. */
  override gatherSync<T extends NumericArray | tf.Tensor>(
    value: T,
    options: RootedGatherOptions = {},
  ): T[] | undefined {
    const sent = sentTensor('ring.gather', value, options);
    return super.gatherSync(sent.array, options)?.map(sent.resultOf);
  }

  /** {@link Communicator.reduceScatter}; also of tensors, as {@link allReduce}: the chunk has one dimension. */
  override reduceScatter<T extends tf.Tensor>(tensor: T, options?: ReduceOptions): Promise<tf.Tensor1D>;
  override reduceScatter<T extends NumericArray>(array: T, options?: ReduceOptions): Promise<T>;
  override async reduceScatter(
    value: NumericArray | tf.Tensor,
    options: ReduceOptions = {},
  ): Promise<NumericArray | tf.Tensor> {
    const sent = sentTensor('ring.reduceScatter', value, options, true);
    return sent.partOf(await super.reduceScatter(sent.array, options));
  }

  /** {@link reduceScatter}; the thread sleeps meanwhile. */
  override reduceScatterSync<T extends tf.Tensor>(tensor: T, options?: ReduceOptions): tf.Tensor1D;
  override reduceScatterSync<T extends NumericArray>(array: T, options?: ReduceOptions): T;
  override reduceScatterSync(value: NumericArray | tf.Tensor, options: ReduceOptions = {}): NumericArray | tf.Tensor {
    const sent = sentTensor('ring.reduceScatter', value, options, true);
    return sent.partOf(super.reduceScatterSync(sent.array, options));
  }

  /** {@link Communicator.scatter}; also of tensors, as {@link allReduce}. */
  override scatter<T extends tf.Tensor>(tensor: T, options?: ScatterOptions<tf.Tensor>): Promise<T>;
  override scatter<T extends NumericArray>(array: T, options?: ScatterOptions<T>): Promise<T>;
  override async scatter(
    value: NumericArray | tf.Tensor,
    options: ScatterOptions<NumericArray | tf.Tensor> = {},
  ): Promise<NumericArray | tf.Tensor> {
    const sent = sentTensor('ring.scatter', value);
    return sent.resultOf(await super.scatter(sent.array, sentFrom(options)));
  }

  /** {@link scatter}; the thread sleeps meanwhile. */
  override scatterSync<T extends tf.Tensor>(tensor: T, options?: ScatterOptions<tf.Tensor>): T;
  override scatterSync<T extends NumericArray>(array: T, options?: ScatterOptions<T>): T;
  override scatterSync(
    value: NumericArray | tf.Tensor,
    options: ScatterOptions<NumericArray | tf.Tensor> = {},
  ): NumericArray | tf.Tensor {
    const sent = sentTensor('ring.scatter', value);
    return sent.resultOf(super.scatterSync(sent.array, sentFrom(options)));
  }

  /** {@link Communicator.allToAll}; also of tensors, as {@link allReduce}. */
  override async allToAll<T extends NumericArray | tf.Tensor>(value: T, options: CallOptions = {}): Promise<T> {
    const sent = sentTensor('ring.allToAll', value);
    return sent.resultOf(await super.allToAll(sent.array, options));
  }

  /** {@link allToAll}; the thread sleeps meanwhile. */
  override allToAllSync<T extends NumericArray | tf.Tensor>(value: T, options: CallOptions = {}): T {
    const sent = sentTensor('ring.allToAll', value);
    return sent.resultOf(super.allToAllSync(sent.array, options));
  }

  /**
   * Makes an optimizer apply the mean gradient of all ranks; see {@link RingOptimizer}. Without the option
   * `compression` it takes `lowRank()`, or, in a long `model.fit` with SGD or momentum, DGC at 99.9 %: see
   * {@link WrapOptions.compression}.
   *
   * ```ts
   * const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: dgc({ sparsity: 0.99 }) });
   * ```
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` for options that are wrong, or for an optimizer that is wrapped
   *   already.
   */
  wrap(optimizer: tf.Optimizer, options?: WrapOptions): RingOptimizer {
    return new RingOptimizer(this, optimizer, options);
  }

  /**
   * Makes a layer like `tf.layers.batchNormalization` that, in training, normalizes with the mean and the variance over
   * the batches of all ranks: as one process does with all of them. For batches too small for statistics of their own.
   * It has two small all-reduces in each pass, forward and back. A model that has it is saved as with the ordinary
   * layer.
   *
   * ```ts
   * const layer = ring.batchNormalization({ inputShape: [1], momentum: 0 });
   * layer.apply(tf.tensor2d([ring.rank, ring.rank], [2, 1]), { training: true });
   * console.log(layer.getWeights()[2]!.dataSync()); // Float32Array(1) [ 0.5 ]
   * ```
   *
   * @param config That of `tf.layers.batchNormalization`.
   * @throws GradringError `ERR_INVALID_ARGUMENT` for options that the layer does not have, and in an elastic run, which
   *   may lose a rank within the layer.
   */
  batchNormalization(config: BatchNormalizationConfig = {}): tf.layers.Layer {
    return syncBatchNormalization(this, config);
  }

  /**
   * Makes the callbacks for `model.fit`. Before the training they compare the models of all ranks and broadcast the
   * weights of rank 0. At the end of each epoch they average metrics and batch norm's moving statistics, and compare
   * all weights. Pass your own callbacks beside them, or as `{ also: [yours] }`: they are called after the ring's.
   *
   * ```ts
   * const yours = { onEpochEnd: (epoch: number) => console.log('epoch', epoch) }; // epoch 0
   * await model.fit(...ring.shard(x, y), { epochs: 1, callbacks: [...ring.callbacks(), yours] });
   * ```
   */
  callbacks(options: CallbackOptions = {}): tf.Callback[] {
    return callbacksOf(this, options);
  }

  /**
   * Saves a training to disk and resumes it; see {@link Checkpoint}. The training is a model that is compiled with a
   * wrapped optimizer, or the variables and the optimizer of a custom loop. With {@link callbacks}, `model.fit` saves
   * by itself.
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` for options that are wrong.
   */
  checkpoint(source: tf.LayersModel | Trained, options: CheckpointOptions): Checkpoint {
    return new Checkpoint(this, source, options);
  }

  /**
   * Begins a training, of a model that is compiled with a wrapped optimizer, or of a custom loop: gives all ranks the
   * weights of rank 0. In an elastic run, a process that replaces a lost one waits here until the others are at the end
   * of an epoch (or call {@link commit}). Then it gets their state, and learns where they are.
   * {@link Checkpoint.resume} does the same; it needs no `join` beside it.
   *
   * ```ts
   * const { epoch } = await ring.join(model);
   * await model.fit(...ring.shard(x, y), { epochs, initialEpoch: epoch, callbacks: ring.callbacks() });
   * ```
   *
   * @throws GradringError `ERR_MODEL_MISMATCH` if the ranks have different models.
   */
  async join(source: tf.LayersModel | Trained): Promise<JoinedPosition> {
    return LiveTraining.of(this).join(trainedOf(source, 'ring.join'));
  }

  /**
   * Lets in processes that wait in {@link join}, if the run is elastic. For custom loops: all ranks call it, between
   * the same two steps. `model.fit` does it at the end of each epoch.
   *
   * @param state What the processes that join get in addition to the state of the training: small, plain JSON. Pass the
   *   same on all ranks. They get that of one of them, and it is not compared.
   * @throws GradringError `ERR_INVALID_ARGUMENT` for a state that JSON would change, with the place in it.
   */
  async commit(state?: unknown): Promise<void> {
    await LiveTraining.of(this).commitLoop(state);
  }

  /**
   * Gives this rank its part of tensors or of a dataset: rows rank, rank + worldSize, and so on. All ranks get the same
   * number of rows. The rows of a rank never change: they depend on {@link launched}. The tensors are new. With
   * `{ reshuffle: seed }` each epoch of `model.fit` divides the rows of tensors anew.
   *
   * All ranks must pass the same data in the same order. The ring compares a sample of it once, when the training
   * begins (of a dataset, after the first epoch), and warns if it differs.
   *
   * ```ts
   * console.log(ring.shard(tf.range(0, 6)).arraySync()); // [ 0, 2, 4 ]
   * ```
   *
   * @param options `{ check: false }` turns the comparison off; `{ reshuffle: seed }`.
   * @throws GradringError `ERR_INVALID_ARGUMENT` if it is not data, or has different numbers of rows.
   */
  shard<T extends tf.TensorContainer>(dataset: tf.data.Dataset<T>, options?: ShardOptions): tf.data.Dataset<T>;
  shard<X extends TensorData, Y extends TensorData>(x: X, y: Y, options?: ShardOptions): [X, Y];
  shard<X extends TensorData>(x: X, options?: ShardOptions): X;
  shard(first: TensorData | tf.data.Dataset<tf.TensorContainer>, ...rest: unknown[]): unknown {
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
      return shardDataset(first, this, options);
    }
    const sharded = shardTensors([first, ...others], this, options);
    return others.length === 0 ? sharded[0] : sharded;
  }

  /**
   * Makes a dataset of rows that this rank reads for itself, of files or a database. In each epoch the ranks together
   * take each row once; a row may be a whole file, with `batchSize: 1`. For `model.fitDataset`, or a loop of your own.
   *
   * ```ts
   * const numbers = ring.shardRows(6, rows => tf.tensor1d(Array.from(rows)), { batchSize: 2 });
   * const { value } = await (await numbers.iterator()).next();
   * console.log(value.arraySync()); // [ 0, 1 ]
   * ```
   *
   * @param rows How many rows there are, the same on all ranks.
   * @param read Returns a batch: the rows with these numbers, which are 0 to `rows` − 1, as new tensors.
   * @param options `batchSize` of a rank, 32 if not given; `reshuffle`: a seed, the same on all ranks; `uneven:
   *   true`: no row twice.
   * @throws GradringError `ERR_INVALID_ARGUMENT`.
   */
  shardRows<T extends tf.TensorContainer>(
    rows: number,
    read: (rows: Int32Array) => T | Promise<T>,
    options?: RowsOptions,
  ): RowDataset<T> {
    const dataset = new RowDataset(this, rows, read, options);
    const check = DataCheck.of(this);
    check.isDivided = true;
    check.note([], `${rows} rows, reshuffle ${options?.reshuffle}`);
    return dataset;
  }

  /**
   * Shuffles rows with one seed for all ranks, keeps some for validation, and gives this rank its shard of the rest. So
   * no rank trains on a row that another rank validates on.
   *
   * ```ts
   * const { train, validation } = ring.split(x, y, { validation: 0.2, seed: 7 });
   * await model.fit(...train, { validationData: validation, epochs, callbacks: ring.callbacks() });
   * ```
   *
   * @throws GradringError `ERR_INVALID_ARGUMENT` if no row would be left for one of the two.
   */
  split<X extends TensorData, Y extends TensorData>(x: X, y: Y, options: SplitOptions): Split<X, Y> {
    return splitTensors(x, y, this, options);
  }

  /**
   * Evaluates a model on a whole data set, each row once: each rank computes every N-th batch, and all ranks get the
   * values that `model.evaluate` (or `model.evaluateDataset`) of one process returns, except for rounding. All ranks
   * must pass the same data, and not a shard of it.
   *
   * ```ts
   * const layer = tf.layers.dense({ inputShape: [1], units: 1, kernelInitializer: 'zeros' });
   * const model = tf.sequential({ layers: [layer] });
   * model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
   * const loss = (await ring.evaluate(model, tf.zeros([3, 1]), tf.tensor2d([1, 2, 3], [3, 1]))) as tf.Scalar;
   * console.log(loss.arraySync().toFixed(4)); // 4.6667
   * ```
   *
   * @param options `batchSize` for tensors, `batches` for a dataset, whose elements are batches `{ xs, ys }`.
   * @returns The loss, or the loss and the metrics, in the order of `model.metricsNames`.
   * @throws GradringError `ERR_COLLECTIVE_MISMATCH` if a rank has other data than rank 0; `ERR_INVALID_ARGUMENT`.
   */
  evaluate(
    model: tf.LayersModel,
    dataset: tf.data.Dataset<tf.TensorContainer>,
    options?: WholeDataOptions,
  ): Promise<tf.Scalar | tf.Scalar[]>;
  evaluate(
    model: tf.LayersModel,
    x: TensorData,
    y: TensorData,
    options?: WholeDataOptions,
  ): Promise<tf.Scalar | tf.Scalar[]>;
  async evaluate(model: tf.LayersModel, data: WholeInput, ...rest: unknown[]): Promise<tf.Scalar | tf.Scalar[]> {
    const y = data instanceof tf.data.Dataset ? undefined : (rest.shift() as TensorData);
    const source = wholeData('ring.evaluate', model, data, y, rest[0]);
    const [loss, ...metrics] = (await evaluateTogether(this, model, source, 'refuse')).map(each => tf.scalar(each));
    return metrics.length === 0 ? loss! : [loss!, ...metrics];
  }

  /**
   * Computes a model's predictions for a whole data set: each rank those of every N-th batch. All ranks get all of
   * them, in the order of the rows. All ranks must pass the same data, and not a shard of it.
   *
   * ```ts
   * const layer = tf.layers.dense({ inputShape: [1], units: 1, kernelInitializer: 'ones' });
   * const model = tf.sequential({ layers: [layer] });
   * const predicted = (await ring.predict(model, tf.tensor2d([1, 2, 3], [3, 1]), { batchSize: 1 })) as tf.Tensor;
   * console.log(predicted.flatten().arraySync()); // [ 1, 2, 3 ]
   * ```
   *
   * @param options `batchSize` for tensors, `batches` for a dataset, whose elements are batches: `{ xs }`, or x alone;
   *   `root` if only one rank needs the predictions.
   * @returns A new tensor, or one for each output of the model. With `root`, undefined on the other ranks.
   * @throws GradringError `ERR_COLLECTIVE_MISMATCH` if a rank has other data than rank 0; `ERR_INVALID_ARGUMENT`.
   */
  predict(model: tf.LayersModel, data: WholeInput, options?: WholeDataOptions): Promise<tf.Tensor | tf.Tensor[]>;
  predict(
    model: tf.LayersModel,
    data: WholeInput,
    options: PredictOptions,
  ): Promise<tf.Tensor | tf.Tensor[] | undefined>;
  async predict(model: tf.LayersModel, data: WholeInput, options?: PredictOptions) {
    const source = wholeData('ring.predict', model, data, undefined, options);
    const root = options?.root;
    if (root !== undefined) requireRank('root', root, this.worldSize);
    const predicted = await predictTogether(this, model, source, root);
    return predicted?.length === 1 ? predicted[0]! : predicted;
  }

  /**
   * Gives every rank the root's values of a model's weights, or of variables, after it has checked that names, shapes
   * and order are the same. `ring.callbacks()` does it for `model.fit`; a custom loop calls it before its first step.
   *
   * ```ts
   * const w = tf.variable(tf.fill([2], 1 + ring.rank), true, 'w');
   * await ring.broadcastVariables([w]);
   * console.log(w.arraySync()); // [ 1, 1 ]
   * ```
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
   * Averages float32 variables over the ranks, except those that are equal already. `ring.callbacks()` does it for
   * batch norm's moving statistics after each epoch. A custom loop calls it when it needs equal ones. Variables of
   * other types must be equal.
   *
   * ```ts
   * const mean = tf.variable(tf.fill([2], ring.rank), false, 'mean');
   * await ring.averageVariables([mean]);
   * console.log(mean.arraySync()); // [ 0.5, 0.5 ]
   * ```
   *
   * @throws GradringError `ERR_MODEL_MISMATCH` if names, types, shapes or order differ; `ERR_INVALID_ARGUMENT` if a
   *   variable of another type differs.
   */
  async averageVariables(source: tf.LayersModel | Variables): Promise<void> {
    const variables = variablesOf(source, 'ring.averageVariables');
    await checkSameVariables(this, variables, Purpose.AverageVariables);
    await averageVariables(this, variables, Purpose.AverageVariables);
  }

  /**
   * Compares the weights of all ranks, bit for bit, and returns their hash (SHA-256, in hexadecimal).
   *
   * ```ts
   * const hash = await ring.verifyReplicas([tf.variable(tf.ones([2]), true, 'ones')]);
   * console.log(hash.length); // 64
   * ```
   *
   * @throws GradringError `ERR_REPLICAS_DIVERGED`, naming the first rank that differs from rank 0, and the variable;
   *   `ERR_INVALID_ARGUMENT` within a round of local steps.
   */
  async verifyReplicas(source: tf.LayersModel | Variables): Promise<string> {
    const variables = variablesOf(source, 'ring.verifyReplicas');
    requireRoundOver(variables, 'ring.verifyReplicas');
    const when = isFitting(this) ? 'while model.fit is under way (is await missing before it?)' : 'at this point';
    return verifyReplicas(this, variables, { when, purpose: Purpose.VerifyReplicas });
  }
}

/** A plain object without tensors. */
function isShardOptions(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return false;
  return Object.values(value).every(each => !(each instanceof tf.Tensor));
}

/**
 * Joins the ring that `gradring run`, torchrun's variables or the options describe. Without any of them the process is
 * alone: a ring of one, without sockets. On one of two ranks:
 *
 * ```ts
 * const ring = await connect({ timeoutMs: 60_000 });
 * console.log(ring.rank, ring.worldSize); // 0 2
 * await ring.close();
 * ```
 *
 * @throws GradringError see {@link Communicator.connect}.
 */
export function connect(input: ConnectInput = {}): Promise<Ring> {
  return Ring.connect(input);
}
