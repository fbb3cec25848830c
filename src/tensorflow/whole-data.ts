import { checkOptions, requireCount } from '../check-options';
import { invalidArgument } from '../errors';
import { brief } from './brief';
import { hashOfRows } from './data-check';
import { requireRoundOver } from './local-steps';
import { isOwnModel, notOurs } from './one-copy';
import { variablesOf } from './variables';
import { rowsOf, type TensorData, tensorsIn } from './shard';
import { tf } from './tfjs';

/** Some rows, as a model takes them. */
export interface Batch {
  readonly xs: tf.Tensor[];
  /** Empty if there are no targets. */
  readonly ys: tf.Tensor[];
  readonly rows: number;
}

/** Data that all ranks have, in batches. A batch has the same number on all ranks. */
export interface WholeData {
  /** A hash of some rows, and how they are divided: the same on ranks that have the same data. */
  sample(): Promise<string>;
  /**
   * Calls `each` with the chosen batches in their order. A batch is disposed of afterwards.
   *
   * @param isChosen Whether to take a batch, by its number from 0 on.
   */
  forEach(isChosen: (index: number) => boolean, each: (batch: Batch, index: number) => Promise<void>): Promise<void>;
}

/** Options of {@link Ring.evaluate}. */
export interface WholeDataOptions {
  /** How many rows of tensors a batch has. Default 32, as in TensorFlow.js. */
  readonly batchSize?: number;
  /** How many batches of a dataset are taken at most. Default: all. */
  readonly batches?: number;
}

/** Options of {@link Ring.predict}. */
export interface PredictOptions extends WholeDataOptions {
  /** The rank that gets the predictions; the others get undefined. Default: all ranks get them. */
  readonly root?: number;
}

/** Data that all ranks have. The elements of a dataset are batches. */
export type WholeInput = TensorData | tf.data.Dataset<tf.TensorContainer>;

/**
 * Data for a call of the user.
 *
 * @param given The options, as the user gave them.
 * @throws GradringError `ERR_INVALID_ARGUMENT`.
 */
export function wholeData(
  call: 'ring.evaluate' | 'ring.predict',
  model: tf.LayersModel,
  data: WholeInput,
  y: TensorData | undefined,
  given: unknown = {},
): WholeData {
  if (!isOwnModel(model)) throw notOurs('model', 'fit', model, `${call} takes a model first, not ${brief(model)}.`);
  const options = given as WholeDataOptions;
  checkOptions(call, options, { batchSize: true, batches: true, ...(call === 'ring.predict' && { root: true }) });
  requireRoundOver(variablesOf(model, call), call);
  if (data instanceof tf.data.Dataset) {
    if (options.batchSize === undefined) return datasetBatches(model, data, call, options.batches);
    throw invalidArgument(`${call}: batchSize is for tensors. The elements of a dataset are its batches.`);
  }
  if (options.batches !== undefined) throw invalidArgument(`${call}: batches is for a dataset.`);
  if (call === 'ring.evaluate' && y == null) {
    throw invalidArgument('ring.evaluate takes x and y, or a dataset of { xs, ys }.');
  }
  return tensorBatches(model, y === undefined ? [data] : [data, y], call, options.batchSize);
}

type Names = Pick<tf.LayersModel, 'inputNames' | 'outputNames'>;

/** Divides tensors into batches of `batchSize` rows. The last batch may have fewer. The tensors are not disposed of. */
export function tensorBatches(
  model: Names,
  data: readonly [x: TensorData, y?: TensorData],
  call: string,
  batchSize = 32,
): WholeData {
  requireCount('batchSize', batchSize);
  const [x, y] = data;
  const count = rowsOf(y === undefined ? [x] : [x, y], call);
  const [xs, ys] = [listOf(model.inputNames, x), y === undefined ? [] : listOf(model.outputNames, y)];
  return {
    sample: async () => `${hashOfRows([...xs, ...ys])} ${count} rows in batches of ${batchSize}`,
    async forEach(isChosen, each) {
      for (let index = 0; index * batchSize < count; index++) {
        if (!isChosen(index)) continue;
        const start = index * batchSize;
        const rows = Math.min(batchSize, count - start);
        const take = (tensor: tf.Tensor) => tf.slice(tensor, start, rows);
        const batch = { xs: xs.map(take), ys: ys.map(take), rows };
        try {
          await each(batch, index);
        } finally {
          tf.dispose([batch.xs, batch.ys]);
        }
      }
    },
  };
}

/** The elements of a dataset, which are batches: `{ xs, ys }`, or for predictions also x alone. */
export function datasetBatches(
  model: Names,
  dataset: tf.data.Dataset<tf.TensorContainer>,
  call: string,
  batches = Infinity,
): WholeData {
  if (batches !== Infinity) requireCount('batches', batches);
  const batchOf = (element: tf.TensorContainer): Batch => {
    const { xs: x = element, ys: y } = isPair(element) ? element : {};
    const [xs, ys] = [listOf(model.inputNames, x as TensorData), y == null ? [] : listOf(model.outputNames, y)];
    const rows = rowsOf([xs, ...(ys.length > 0 ? [ys] : [])], call);
    return { xs, ys, rows };
  };
  let sample: string | undefined; // `model.fit` asks in each epoch
  return {
    async sample() {
      if (sample !== undefined) return sample;
      const { value, done } = await (await dataset.iterator()).next();
      if (done) throw invalidArgument(`${call} was given a dataset without elements.`);
      sample = `${hashOfRows(tensorsIn(value))} ${batches} batches`;
      tf.dispose(value);
      return sample;
    },
    async forEach(isChosen, each) {
      const iterator = await dataset.iterator();
      for (let index = 0; index < batches; index++) {
        const { value, done } = await iterator.next();
        if (done) return;
        try {
          if (isChosen(index)) await each(batchOf(value), index);
        } finally {
          tf.dispose(value);
        }
      }
    },
  };
}

function isPair(element: tf.TensorContainer): element is { xs: TensorData; ys?: TensorData } {
  return typeof element === 'object' && element !== null && !(element instanceof tf.Tensor) && 'xs' in element;
}

/** The tensors in the order of the model's inputs or outputs. */
function listOf(names: readonly string[], data: TensorData): tf.Tensor[] {
  if (data instanceof tf.Tensor) return [data];
  if (Array.isArray(data)) return data;
  return names.map(name => {
    const tensor = data[name];
    if (tensor === undefined) throw invalidArgument(`The data has no '${name}', which the model has.`);
    return tensor;
  });
}
