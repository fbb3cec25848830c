import { type Communicator, Purpose } from '../communicator/communicator';
import {
  GradringError,
  invalidArgument,
  isSerializedError,
  readError,
  type SerializedError,
  serializeError,
} from '../errors';
import { brokenValue } from '../rank-values';
import { type Check, isCount, isListOf, isOneOf, isOptional, isText, isWith } from '../shape';
import { awake, waitForPromise } from '../work';
import { bytesOf } from '../core/bytes-of';
import { areTexts, gatherValues } from '../core/replicas';
import { tf } from './tfjs';
import type { WholeData } from './whole-data';

/** What a rank has computed of one batch. Values are texts, because JSON has no NaN. */
interface Measured {
  readonly index: number;
  readonly rows: number;
  readonly values: readonly string[];
}

const areMeasured = isListOf(isWith<Measured>({ index: isCount, rows: isCount, values: areTexts }));

/**
 * The loss and the metrics of a model over data, each row once: each rank computes every N-th batch. Batches are those
 * that one process would have, and are weighted by their rows, as tfjs does it.
 *
 * @param whenDifferent What follows if the ranks have different data: an error, or each rank computes all of its own.
 */
export async function evaluateTogether(
  communicator: Communicator,
  model: tf.LayersModel,
  data: WholeData,
  whenDifferent: 'refuse' | 'take all',
): Promise<number[]> {
  const run = async () => {
    const isOwn = await chooseBatches(communicator, data, Purpose.Evaluate, whenDifferent);
    const measure = async () => {
      const own: Measured[] = [];
      await data.forEach(isOwn, async ({ xs, ys, rows }, index) => {
        if (ys.length === 0) throw invalidArgument('ring.evaluate was given a batch without ys.');
        const scalars = [model.evaluate(xs, ys, { batchSize: rows })].flat();
        const values = await Promise.all(scalars.map(async scalar => String((await scalar.data())[0])));
        tf.dispose(scalars);
        own.push({ index, rows, values });
      });
      return own;
    };
    const all = (await outcomesOf(communicator, Purpose.Evaluate, areMeasured, measure)).flat();
    if (all.length === 0) throw invalidArgument('There is no batch to evaluate.');
    all.sort((a, b) => a.index - b.index); // so that the sums are the same whatever N
    const count = all.reduce((sum, { rows }) => sum + rows, 0);
    return all[0]!.values.map((_, i) => String(all.reduce((sum, each) => sum + each.rows * Number(each.values[i]), 0) / count)); // prettier-ignore
  };
  const unit = { name: 'evaluate', isResult: areTexts, run: () => waitForPromise(run()) };
  return (await communicator.units.run(unit)).map(Number);
}

const isGatheredType = isOneOf(['float32', 'int32', 'bool'] as const);
type GatheredType = 'float32' | 'int32' | 'bool';

/** The outputs of a model: the shape and the type of each. */
interface Outputs {
  readonly shapes: readonly (readonly number[])[];
  readonly types: readonly GatheredType[];
}

/** What a rank tells of its predictions: the batches in its order, and the outputs for one row. */
interface OwnPredictions extends Outputs {
  readonly batches: readonly { readonly index: number; readonly rows: number }[];
}

const OUTPUTS = { shapes: isListOf(isListOf(isCount)), types: isListOf(isGatheredType) };
const areOutputs = isWith<Outputs>(OUTPUTS);
const areOwnPredictions = isWith<OwnPredictions>({
  ...OUTPUTS,
  batches: isListOf(isWith({ index: isCount, rows: isCount })),
});

/**
 * A model's predictions for data, in the order of the rows: each rank computes every N-th batch. Ranks other than the
 * root, if there is one, get undefined.
 */
export async function predictTogether(
  communicator: Communicator,
  model: tf.LayersModel,
  data: WholeData,
  root: number | undefined,
): Promise<tf.Tensor[] | undefined> {
  /** The values of each output. The caller may dispose of the tensors while a rank that is behind needs these. */
  let values: Float32Array[] = [];
  const run = async (): Promise<Outputs> => {
    const isOwn = await chooseBatches(communicator, data, Purpose.Predict, 'refuse');
    const outputs: tf.Tensor[][] = []; // by batch
    const batches: { index: number; rows: number }[] = [];
    values = []; // it may run again
    try {
      const all = await outcomesOf(communicator, Purpose.Predict, areOwnPredictions, async () => {
        await data.forEach(isOwn, async ({ xs, rows }, index) => {
          outputs.push([model.predict(xs, { batchSize: rows })].flat());
          batches.push({ index, rows });
        });
        const first = outputs[0] ?? [];
        return { batches, shapes: first.map(({ shape }) => shape.slice(1)), types: first.map(gatheredType) };
      });
      const some = all.find(each => each.batches.length > 0);
      if (some === undefined) throw invalidArgument('There is no batch to predict.');
      const order = orderOfRows(all.flatMap(each => each.batches));
      for (const [i, type] of some.types.entries()) {
        const shape = some.shapes[i]!;
        const own = valuesOf(() => tf.concat([tf.zeros([0, ...shape], type), ...outputs.map(of => of[i]!)]));
        const byRank = await communicator.allGather(own, { variableLength: true });
        const rowsOf = (each: Float32Array) => tf.tensor(each, [each.length / tf.util.sizeFromShape([...shape]), ...shape], type); // prettier-ignore
        values.push(valuesOf(() => tf.gather(tf.concat(byRank.map(rowsOf)), tf.tensor1d(order, 'int32'))));
      }
      return { shapes: some.shapes.map(shape => [order.length, ...shape]), types: some.types };
    } finally {
      tf.dispose(outputs);
    }
  };
  const share = (root: number, isBehind: boolean, { shapes, types }: Outputs) => {
    if (isBehind) values = shapes.map((shape, i) => valuesOf(() => tf.zeros([...shape], types[i]!)));
    for (const each of values) communicator.broadcastSync(bytesOf(each), { root, purpose: Purpose.Reunite });
  };
  const unit = { name: 'predict', isResult: areOutputs, run: () => waitForPromise(run()), share };
  const { shapes, types } = await communicator.units.run(unit);
  if (root !== undefined && root !== communicator.rank) return undefined;
  return values.map((each, i) => tf.tensor(each, [...shapes[i]!], types[i]));
}

/** A copy of the values of a tensor, which is disposed of. Of a type other than float32 they are another array. */
function valuesOf(make: () => tf.Tensor): Float32Array {
  const tensor = tf.tidy(make);
  const values = tensor.dataSync<'float32'>().slice();
  tensor.dispose();
  return values;
}

function gatheredType({ dtype }: tf.Tensor): GatheredType {
  if (isGatheredType(dtype)) return dtype;
  throw invalidArgument(`ring.predict cannot gather an output of the type ${dtype}.`);
}

/** Where each row is, if the batches are in this order. */
function orderOfRows(batches: OwnPredictions['batches']): number[] {
  let start = 0;
  const places = batches.map(({ index, rows }) => ({ index, rows, start: (start += rows) - rows }));
  places.sort((a, b) => a.index - b.index);
  return places.flatMap(place => Array.from({ length: place.rows }, (_, i) => place.start + i));
}

/** What all ranks have computed. If one of them could not, all get its error. */
async function outcomesOf<T>(
  communicator: Communicator,
  purpose: Purpose,
  isValue: Check<T>,
  compute: () => Promise<T>,
): Promise<T[]> {
  let cause: unknown;
  const told: { value: T | undefined; error: SerializedError | undefined } = await compute().then(
    value => ({ value, error: undefined }),
    (error: unknown) => {
      cause = error;
      return { value: undefined, error: serializeError(error, 'ERR_INVALID_ARGUMENT') };
    },
  );
  const isOutcome = isWith({ value: isOptional(isValue), error: isOptional(isSerializedError) });
  const all = await awake(gatherValues(communicator, purpose, isOutcome, told));
  if (cause !== undefined) throw cause;
  return all.map(({ value, error }, rank) => {
    if (value !== undefined) return value;
    if (error === undefined) throw brokenValue(rank);
    const { code, message, details } = readError(error)!;
    throw new GradringError(code, `Rank ${rank}: ${message}`, { ...details, rank });
  });
}

/** Chooses the batches of this rank. */
async function chooseBatches(
  communicator: Communicator,
  data: WholeData,
  purpose: Purpose.Evaluate | Purpose.Predict,
  whenDifferent: 'refuse' | 'take all',
): Promise<(index: number) => boolean> {
  const samples = await awake(gatherValues(communicator, purpose, isText, await data.sample()));
  const { rank, worldSize } = communicator; // those of the ring in which all have answered
  const other = samples.findIndex(sample => sample !== samples[0]);
  if (other === -1) return index => index % worldSize === rank;
  if (whenDifferent === 'take all') return () => true;
  const call = purpose === Purpose.Evaluate ? 'ring.evaluate' : 'ring.predict';
  const words = `Rank ${other} gave other data to ${call} than rank 0. Pass the whole data on all ranks, in the same order, and not a shard of it: ${call} divides it by itself.`;
  throw new GradringError('ERR_COLLECTIVE_MISMATCH', words, { rank: other });
}
