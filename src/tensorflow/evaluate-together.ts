import { type ArrayOf, type Communicator, Purpose } from '../communicator/communicator';
import { GradringError, invalidArgument } from '../errors';
import { isCount, isListOf, isText, isWith } from '../shape';
import { awake, waitForPromise } from '../work';
import { bytesOf } from './bytes-of';
import { areTexts, gatherValues } from './replicas';
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
    const isOwn = await ownBatches(communicator, data, Purpose.Evaluate, whenDifferent);
    const own: Measured[] = [];
    await data.forEach(isOwn, async ({ xs, ys, rows }, index) => {
      if (ys.length === 0) throw invalidArgument('ring.evaluate was given a batch without ys.');
      const scalars = [model.evaluate(xs, ys, { batchSize: rows })].flat();
      const values = await Promise.all(scalars.map(async scalar => String((await scalar.data())[0])));
      tf.dispose(scalars);
      own.push({ index, rows, values });
    });
    const all = (await awake(gatherValues(communicator, Purpose.Evaluate, areMeasured, own))).flat();
    if (all.length === 0) throw invalidArgument('There is no batch to evaluate.');
    all.sort((a, b) => a.index - b.index); // so that the sums are the same whatever N
    const count = all.reduce((sum, { rows }) => sum + rows, 0);
    return all[0]!.values.map((_, i) => String(all.reduce((sum, each) => sum + each.rows * Number(each.values[i]), 0) / count)); // prettier-ignore
  };
  const unit = { name: 'evaluate', isResult: areTexts, run: () => waitForPromise(run()) };
  return (await communicator.units.run(unit)).map(Number);
}

/** A model's predictions for all rows: for each output the values, and the shape of all rows together. */
interface Predicted {
  readonly shapes: readonly (readonly number[])[];
  readonly types: readonly string[];
}

/** What a rank tells of its predictions: the rows of its batches, and the shape of a row of each output. */
interface OwnPredictions extends Predicted {
  readonly batches: readonly { readonly index: number; readonly rows: number }[];
}

const PREDICTED = { shapes: isListOf(isListOf(isCount)), types: isListOf(isText) };
const isPredicted = isWith<Predicted>(PREDICTED);
const isOwnPredictions = isWith<OwnPredictions>({
  ...PREDICTED,
  batches: isListOf(isWith({ index: isCount, rows: isCount })),
});

/** A model's predictions for data, on every rank in the order of the rows: each rank computes every N-th batch. */
export async function predictTogether(
  communicator: Communicator,
  model: tf.LayersModel,
  data: WholeData,
): Promise<tf.Tensor[]> {
  let values: PredictedArray[] = [];
  const run = async (): Promise<Predicted> => {
    const isOwn = await ownBatches(communicator, data, Purpose.Predict, 'refuse');
    const outputs: tf.Tensor[][] = [];
    const batches: { index: number; rows: number }[] = [];
    try {
      await data.forEach(isOwn, async ({ xs, rows }, index) => {
        outputs.push([model.predict(xs, { batchSize: rows })].flat());
        batches.push({ index, rows });
      });
      const first = outputs[0] ?? [];
      const own = { batches, shapes: first.map(({ shape }) => shape.slice(1)), types: first.map(({ dtype }) => dtype) };
      const all = await awake(gatherValues(communicator, Purpose.Predict, isOwnPredictions, own));
      const one = all.find(each => each.batches.length > 0);
      if (one === undefined) throw invalidArgument('There is no batch to predict.');
      const total = all.flatMap(each => each.batches).reduce((sum, { rows }) => sum + rows, 0);
      values = [];
      for (const [i, type] of one.types.entries()) {
        const rowSize = one.shapes[i]!.reduce((a, b) => a * b, 1);
        const parts = await Promise.all(outputs.map(of => of[i]!.data() as Promise<PredictedArray>));
        const gathered = await communicator.allGather(joined(type, parts), { variableLength: true });
        values.push(inOrder(type, gathered, all.map(each => each.batches), rowSize)); // prettier-ignore
      }
      return { shapes: one.shapes.map(shape => [total, ...shape]), types: one.types };
    } finally {
      tf.dispose(outputs);
    }
  };
  const share = (root: number, isBehind: boolean, { shapes, types }: Predicted) => {
    if (isBehind)
      values = shapes.map((shape, i) =>
        arrayOf(
          types[i]!,
          shape.reduce((a, b) => a * b, 1),
        ),
      );
    for (const each of values) communicator.broadcastSync(bytesOf(each), { root, purpose: Purpose.Reunite });
  };
  const unit = { name: 'predict', isResult: isPredicted, run: () => waitForPromise(run()), share };
  const { shapes, types } = await communicator.units.run(unit);
  return values.map((each, i) => tf.tensor(each, [...shapes[i]!], types[i] as tf.DataType));
}

/** Chooses the batches of this rank. */
async function ownBatches(
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

type PredictedArray = ArrayOf<'float32' | 'int32' | 'uint8'>;

function arrayOf(type: string, length: number): PredictedArray {
  if (type === 'float32') return new Float32Array(length);
  if (type === 'int32') return new Int32Array(length);
  if (type === 'bool') return new Uint8Array(length);
  throw invalidArgument(`ring.predict cannot gather an output of the type ${type}.`);
}

function joined(type: string, parts: readonly PredictedArray[]): PredictedArray {
  const whole = arrayOf(type, parts.reduce((sum, { length }) => sum + length, 0)); // prettier-ignore
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The values of all ranks, in the order of the batches. `batches` are those of each rank. */
function inOrder(
  type: string,
  byRank: readonly PredictedArray[],
  batches: readonly OwnPredictions['batches'][],
  rowSize: number,
): PredictedArray {
  const parts: { index: number; values: PredictedArray }[] = [];
  for (const [rank, values] of byRank.entries()) {
    let at = 0;
    for (const { index, rows } of batches[rank]!) {
      parts.push({ index, values: values.subarray(at, at + rows * rowSize) as PredictedArray });
      at += rows * rowSize;
    }
  }
  parts.sort((a, b) => a.index - b.index);
  return joined(type, parts.map(({ values }) => values)); // prettier-ignore
}
