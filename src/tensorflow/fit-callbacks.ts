import { tf } from './tfjs';
import type { Communicator } from '../communicator/communicator';
import { GradringError, invalidArgument } from '../errors';
import { DataCheck } from './data-check';
import { FitProgress } from './fit-progress';
import { type CallbackOptions, RingCallback } from './ring-callback';
import { RowDataset, takingEpochPlace } from './row-dataset';
import { listTensors, ownBatches, reshuffledOf, type TensorData, tensorsIn } from './shard';
import { datasetBatches, tensorBatches, type WholeData } from './whole-data';

/** The result of {@link Ring.callbacks}: the ring's callback, and those under `also`. */
export function callbacksOf(communicator: Communicator, options: CallbackOptions): tf.Callback[] {
  const ring = new RingCallback(communicator, options);
  return [ring, ...(options.also ?? []).map(callback => asCallback(callback))] as tf.Callback[];
}

/** Whether `model.fit` trains a model with that ring's callbacks. */
export function isFitting(communicator: Communicator): boolean {
  return fitting.has(communicator);
}

const fitting = new WeakSet<Communicator>();

/** The arguments of `fit` and `fitDataset` that matter here. */
interface FitArguments {
  readonly callbacks?: unknown;
  readonly verbose?: unknown;
  readonly yieldEvery?: unknown;
  readonly batchSize?: number;
  readonly shuffle?: boolean;
  readonly batchesPerEpoch?: number;
  readonly validationData?: unknown;
  readonly validationBatchSize?: number;
  readonly validationBatches?: number;
}

type Fit = (this: tf.LayersModel, ...args: unknown[]) => Promise<tf.History>;

/** `fitDataset` as TensorFlow.js has it. */
const fitDatasetOf = tf.LayersModel.prototype.fitDataset as unknown as Fit;

extendFit();

/**
 * Makes `fit` and `fitDataset` of all models arrange the callbacks if the ring's is among them. tfjs looks only at the
 * first callback to decide whether all are instances of its classes. So plain objects after the ring's callback would
 * fail, and plain objects before it would make tfjs call the ring's methods without their object.
 *
 * It is called when this file is loaded. In `model.fit(…, { callbacks: ring.callbacks() })`, JavaScript looks `fit` up
 * before it evaluates the arguments: if those extended it, that would take effect in the next call only.
 */
function extendFit(): void {
  const prototype = tf.LayersModel.prototype as unknown as Record<'fit' | 'fitDataset', Fit>;
  for (const [name, place] of [
    ['fit', 2],
    ['fitDataset', 1],
  ] as const) {
    const original = prototype[name];
    prototype[name] = async function (...args) {
      const caller = new Error();
      const { fitArguments, ring, progress } = arrange(args[place] as FitArguments | undefined);
      let hasFailed = false;
      args[place] = fitArguments;
      try {
        if (ring !== undefined) {
          fitting.add(ring.communicator);
          await requireTensors();
          const { validation, ...others } = await takeValidation(this, fitArguments!);
          args[place] = others;
          ring.validateOn(validation);
          const check = DataCheck.of(ring.communicator);
          const [x, y] = args as [TensorData, TensorData];
          const dataset = name === 'fit' ? datasetFor(ring, x, y, others) : (args[0] as Batches);
          if (dataset !== undefined) {
            if (dataset instanceof RowDataset && others.batchesPerEpoch != null) {
              throw invalidArgument('ring.shardRows ends each epoch by itself: leave out batchesPerEpoch.');
            }
            const given = name === 'fit' ? fitDatasetOptions(others) : others;
            return await fitDatasetOf.call(
              this,
              withEmptySteps(ring, noteDataset(ring.communicator, dataset), given),
              given,
            );
          }
          check.noteGiven(listTensors([x, y]), others.batchSize ?? BATCH_SIZE);
        } else if (name === 'fit' && reshuffledOf(args[0] as TensorData, args[1] as TensorData) !== undefined) {
          const words = 'ring.shard(…, { reshuffle }) needs ring.callbacks(), which tell it when an epoch begins.';
          throw invalidArgument(words);
        }
        return await original.apply(this, args);
      } catch (cause) {
        progress?.clear();
        hasFailed = true;
        throw withCaller(explained(cause), caller);
      } finally {
        if (ring !== undefined) {
          ring.end(hasFailed);
          fitting.delete(ring.communicator);
        }
      }
    };
  }
}

/**
 * Takes the validation data out of the arguments: the ring evaluates them, each row on one rank. What tfjs would refuse
 * stays, and so does `validationSplit`, because the rows of a rank are only its own then.
 *
 * @throws Error of TensorFlow.js if the model cannot take them. It is tried with a row of them: the training might take
 *   hours until the first evaluation.
 */
async function takeValidation(
  model: tf.LayersModel,
  args: FitArguments,
): Promise<FitArguments & { validation?: WholeData }> {
  const { validationData: data, validationBatchSize = args.batchSize, validationBatches, ...others } = args;
  const call = 'validationData';
  if (data instanceof tf.data.Dataset) {
    return { ...others, validation: datasetBatches(model, data, call, validationBatches) };
  }
  if (!Array.isArray(data) || data.length !== 2) return args;
  const [x, y] = data as [TensorData, TensorData];
  await tensorBatches(model, [x, y], call, 1).forEach(
    index => index === 0,
    async ({ xs, ys }) => tf.dispose(model.evaluate(xs, ys, { batchSize: 1 })),
  );
  return { ...others, validation: tensorBatches(model, [x, y], call, validationBatchSize) };
}

/** Batches of a training. */
type Batches = tf.data.Dataset<tf.TensorContainer>;

/** The batch size of `model.fit`, if none is given. */
const BATCH_SIZE = 32;

/**
 * What `fit` trains on, as a dataset, where TensorFlow.js cannot do it with tensors: because each epoch divides the
 * rows anew, or because this rank may have fewer batches than others. Else undefined.
 */
function datasetFor(ring: RingCallback, x: TensorData, y: TensorData, args: FitArguments): Batches | undefined {
  const { batchSize = BATCH_SIZE, shuffle = true } = args;
  const reshuffled = reshuffledOf(x, y);
  if (reshuffled !== undefined) {
    const { rows, seed, take } = reshuffled;
    return new RowDataset(ring.communicator, rows, take, { batchSize, reshuffle: seed, uneven: ring.joinsUneven });
  }
  return ring.joinsUneven ? ownBatches([x, y], batchSize, shuffle) : undefined;
}

/** The options of `fit` as `fitDataset` takes them. */
function fitDatasetOptions(args: FitArguments): tf.ModelFitDatasetArgs<unknown> {
  const { epochs = 1, ...others } = args as tf.ModelFitArgs;
  const refused = (['validationSplit', 'sampleWeight', 'stepsPerEpoch'] as const).find(name => others[name] != null);
  if (refused === undefined) return { ...others, epochs } as tf.ModelFitDatasetArgs<unknown>;
  throw invalidArgument(`${refused} does not work with ring.shard(…, { reshuffle }), nor with uneven: 'join'.`);
}

/** Goes on with empty steps when this rank has no more batches, as long as another has some. */
function withEmptySteps(ring: RingCallback, dataset: Batches, args: FitArguments): Batches {
  if (!ring.joinsUneven) return dataset;
  if (args.batchesPerEpoch != null) {
    throw invalidArgument("uneven: 'join' ends an epoch when no rank has a batch: leave out batchesPerEpoch.");
  }
  const iterator = async () => {
    const source = await dataset.iterator();
    const next = async () => {
      for (;;) {
        const result = await source.next();
        const isOver = (await ring.countBatches(!result.done)) === 0;
        if (isOver || !result.done) return result;
        await ring.stepWithoutBatch();
      }
    };
    return Object.create(source, { next: { value: next } }) as typeof source;
  };
  return Object.create(dataset, { iterator: { value: iterator } }) as typeof dataset;
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` within `tf.tidy`, which disposes of the data while the model trains. */
async function requireTensors(): Promise<void> {
  const { state } = tf.engine() as unknown as { state: { activeScope?: object; scopeStack: object[] } };
  const scope = state.activeScope;
  if (scope === undefined || scope === null) return;
  await undefined; // tf.tidy ends its scope before this continues; what tf.engine().startScope() began goes on
  if (state.scopeStack.includes(scope)) return;
  throw invalidArgument('model.fit was called within tf.tidy, which cannot wait for it. Call it outside of tf.tidy.');
}

/** Remembers the first batch of a training, when it is read, for the ranks to compare. Returns the same data. */
function noteDataset(communicator: Communicator, dataset: Batches): Batches {
  const check = DataCheck.of(communicator);
  let isNoted = false;
  const iterator = async () => {
    const source = await takingEpochPlace(communicator, () => dataset.iterator());
    const next = async () => {
      const result = await source.next();
      const tensors = isNoted || result.done ? [] : tensorsIn(result.value);
      isNoted = true;
      if (tensors.length > 0) check.noteGiven(tensors, tensors[0]!.shape[0] ?? 1);
      return result;
    };
    return Object.create(source, { next: { value: next } }) as typeof source;
  };
  return Object.create(dataset, { iterator: { value: iterator } }) as typeof dataset;
}

/** The ring ends a training by this error only if the program closes it meanwhile. */
function explained(error: unknown): unknown {
  if ((error as Partial<GradringError>).code !== 'ERR_CLOSED') return error;
  const words = 'The ring was closed while model.fit was under way. Write await before model.fit.';
  return new GradringError('ERR_CLOSED', words, {}, { cause: error });
}

/** The order: the ring's callback, the progress, the user's callbacks, and what must come after those. */
function arrange(args: FitArguments | undefined): {
  readonly fitArguments: FitArguments | undefined;
  readonly ring?: RingCallback;
  readonly progress?: FitProgress;
} {
  if (args?.callbacks == null) return { fitArguments: args };
  const given = [args.callbacks].flat(Infinity);
  const [ring, second] = given.filter(callback => callback instanceof RingCallback);
  if (ring === undefined) return { fitArguments: args };
  if (second !== undefined) throw invalidArgument('model.fit was given ring.callbacks() twice: pass it once.');
  const others = given.filter(callback => callback !== ring).map(each => asCallback(each as object, args.yieldEvery));
  ring.others = others;
  const { verbose = 1 } = args;
  const progress = verbose === 0 ? undefined : new FitProgress(ring.communicator, verbose);
  return {
    fitArguments: {
      ...args,
      verbose: 0, // the progress bar of tfjs-node would be called before the metrics are averaged, and on every rank
      callbacks: [ring, ...(progress === undefined ? [] : [progress]), ...others, ...ring.last],
    },
    ring,
    ...(progress !== undefined && { progress }),
  };
}

/**
 * Adds the frames of the program that called `fit` to an error. tfjs is compiled to generators, which V8 does not
 * follow, so that the frames of the error end within it.
 */
function withCaller(error: unknown, { stack = '' }: Error): unknown {
  if (!(error instanceof Error) || error.stack === undefined) return error;
  const frames = stack.split('\n').slice(1);
  error.stack = [error.stack, ...frames.filter(frame => !error.stack!.includes(frame))].join('\n');
  return error;
}

/** Makes a callback of an object with some of the methods. Returns instances of tfjs's classes as they are. */
function asCallback(callback: object, yieldEvery: unknown = 'auto'): tf.Callback | tf.CustomCallback {
  const isReady = typeof (callback as { setParams?: unknown } | null)?.setParams === 'function';
  if (isReady) return callback as tf.Callback;
  if (typeof callback !== 'object' || callback === null) {
    throw invalidArgument(`model.fit was given ${String(callback)} as a callback beside ring.callbacks().`);
  }
  return new tf.CustomCallback(callback as tf.CustomCallbackArgs, yieldEvery as tf.ModelFitArgs['yieldEvery'] & 'auto');
}
