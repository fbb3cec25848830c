import { brief } from './brief';
import { bytesOf } from './bytes-of';
import { tf } from './tfjs';
import { createHash } from 'node:crypto';
import { type Communicator, Purpose } from '../communicator/communicator';
import { GradringError, invalidArgument } from '../errors';
import { inBrackets } from './shapes';
import { shownName } from '../printable';
import { decodeValues, encodeValue } from '../rank-values';
import { type Check, isListOf, isText, isWith } from '../shape';
import { awake, waitFor, waitForPromise, type Work } from '../work';
import { isOwnModel, isOwnVariable, notOurs, otherCopy } from './one-copy';

/** The variables that all ranks have in common: the weights of a model, or the variables of a custom loop. */
export type Variables = readonly tf.Variable[];

/**
 * The variables of a model (all weights, trainable or not), or the given ones.
 *
 * @param call The call that they are for, as the user writes it: `ring.verifyReplicas`.
 * @throws GradringError `ERR_INVALID_ARGUMENT` if it is neither, for objects of another copy of TensorFlow.js, and for
 *   variables of strings, which have no bits to compare or send.
 */
export function variablesOf(source: tf.LayersModel | Variables, call: string): Variables {
  const variables = listVariables(source, call);
  for (const variable of variables) {
    if (!isOwnVariable(variable)) {
      const words = `${call} takes a model or an array of variables; the array holds ${brief(variable)}.`;
      throw notOurs('variable', 'assign', variable, words);
    }
    if (variable.dtype === 'string') {
      throw invalidArgument(`Variable '${variable.name}' holds strings, which cannot be sent to other ranks.`);
    }
  }
  return variables;
}

function listVariables(source: tf.LayersModel | Variables, call: string): Variables {
  if (isOwnModel(source)) {
    const variables = source.weights.map(weight => weight.read() as tf.Variable);
    if (variables.some(variable => !isOwnVariable(variable))) throw invalidArgument(otherCopy('model'));
    return variables;
  }
  if (Array.isArray(source)) return source as Variables;
  throw notOurs('model', 'fit', source, `${call} takes a model or an array of variables, not ${brief(source)}.`);
}

/** SHA-256 of each variable's name, shape and bits, in hexadecimal. */
export function hashesOf(variables: Variables): string[] {
  return variables.map(variable => {
    const data = variable.dataSync();
    return createHash('sha256')
      .update(`${variable.name} ${variable.dtype} [${variable.shape.join()}]\n`)
      .update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
      .digest('hex');
  });
}

/** Hashes or descriptions of a rank's variables. */
export const areTexts = isListOf(isText);

/**
 * Compares the hashes of all ranks.
 *
 * @param all The hashes of each rank, one for each variable.
 * @throws GradringError `ERR_REPLICAS_DIVERGED`, naming the first rank that differs from rank 0, and the variable.
 */
export function checkHashes(all: readonly (readonly string[])[], variables: Variables, when: string): void {
  const [first] = all;
  for (const [rank, hashes] of all.entries()) {
    const differing = variables.filter((_, i) => hashes[i] !== first![i]);
    const [variable] = differing;
    if (variable === undefined) continue;
    const others = differing.length === 1 ? '' : ` and ${differing.length - 1} more`;
    const advice = differing.every(({ trainable }) => !trainable)
      ? 'No gradient trains it, so it depends on the rows of each rank, like the moving statistics of batch norm: call ring.averageVariables(…) on all ranks before you compare.'
      : 'Start from the same weights (pass ring.callbacks() to model.fit, or await ring.broadcastVariables(…)), and change them only by the wrapped optimizer.';
    const words = `The weights of rank ${rank} differ from those of rank 0 ${when}: '${variable.name}'${others}. ${advice}`;
    throw new GradringError('ERR_REPLICAS_DIVERGED', words, { rank, variable: variable.name });
  }
}

/** Compares the variables of all ranks, bit for bit, and returns their hash. Throws as {@link checkHashes} does. */
export async function verifyReplicas(
  communicator: Communicator,
  variables: Variables,
  { when, purpose }: { readonly when: string; readonly purpose: Purpose },
): Promise<string> {
  const hashes = hashesOf(variables);
  checkHashes(await awake(gatherValues(communicator, purpose, areTexts, hashes)), variables, when);
  return createHash('sha256').update(hashes.join()).digest('hex');
}

/**
 * Compares names, types, shapes and order of the variables.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH`, naming the first difference.
 */
export async function checkSameVariables(
  communicator: Communicator,
  variables: Variables,
  purpose: Purpose,
): Promise<void> {
  checkDescriptions(await awake(gatherValues(communicator, purpose, areTexts, variables.map(describe))));
}

/**
 * A small value of each rank (JSON), by rank. A unit.
 *
 * @throws GradringError `ERR_PROTOCOL`, naming the rank, if one is no such value.
 */
export function gatherValues<T>(communicator: Communicator, purpose: Purpose, isValue: Check<T>, own: T): Work<T[]> {
  const run = function* (): Work<T[]> {
    const options = { variableLength: true, purpose };
    return decodeValues(yield* communicator.allGatherWork(encodeValue(own), options), isValue);
  };
  const unit = { name: `gather ${Purpose[purpose]}`, isResult: isListOf(isValue), run };
  return waitFor(communicator.units.ticket(unit));
}

/** A variable's name, type and shape, for ranks to compare. */
export function describe({ name, shape, dtype }: { name: string; shape: readonly number[]; dtype: string }): string {
  return `'${name}' ${dtype}${inBrackets(shape)}`;
}

/** The comparison of {@link checkSameVariables}. `all` has one list of descriptions for each rank. */
export function checkDescriptions(all: readonly (readonly string[])[]): void {
  const [first] = all;
  all.forEach((descriptions, rank) => {
    const longer = Math.max(descriptions.length, first!.length);
    for (let i = 0; i < longer; i++) {
      if (descriptions[i] === first![i]) continue;
      const words = `Ranks train different models: variable ${i} is ${shownName(first![i] ?? 'missing')} on rank 0, but ${shownName(descriptions[i] ?? 'missing')} on rank ${rank}.`;
      throw new GradringError('ERR_MODEL_MISMATCH', words, { rank });
    }
  });
}

/** Gives every rank the root's values, bit for bit. Shapes and types must be the same on all ranks. */
export async function broadcastVariables(
  communicator: Communicator,
  variables: Variables,
  { root, purpose }: { readonly root: number; readonly purpose: Purpose },
): Promise<void> {
  await changeVariables(communicator, variables, 'broadcastVariables', async change => {
    for (const variable of variables) {
      const data = (await variable.data()).slice() as Float32Array;
      await communicator.broadcast(bytesOf(data), { root, purpose });
      change(variable, data);
    }
  });
}

/**
 * Averages float32 variables over the ranks. Variables that are equal on all ranks (frozen layers) keep their bits.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH` if names, types, shapes or order differ; `ERR_INVALID_ARGUMENT` if a
 *   variable of another type differs.
 */
export async function averageVariables(
  communicator: Communicator,
  variables: Variables,
  purpose: Purpose,
): Promise<void> {
  const own = { variables: variables.map(describe), hashes: hashesOf(variables) };
  const isOwn = isWith<typeof own>({ variables: areTexts, hashes: areTexts });
  const byRank = await awake(gatherValues(communicator, purpose, isOwn, own));
  checkDescriptions(byRank.map(of => of.variables));
  const differing = variables.filter((_, i) => byRank.some(({ hashes }) => hashes[i] !== own.hashes[i]));
  const other = differing.find(({ dtype }) => dtype !== 'float32');
  if (other !== undefined) {
    throw invalidArgument(
      `Variable '${other.name}' differs between the ranks, and is ${other.dtype}; only float32 variables can be averaged. ring.broadcastVariables(…) gives all ranks that of one.`,
    );
  }
  await changeVariables(communicator, differing, 'averageVariables', async change => {
    for (const variable of differing) {
      const data = (await variable.data()).slice() as Float32Array;
      change(variable, await communicator.allReduce(data, { op: 'mean', purpose }));
    }
  });
}

/**
 * Changes variables by collectives, to values that are the same on all ranks: on all ranks or on none. So in an elastic
 * run nothing is changed before the last collective has returned, and all new values are held in memory until then.
 */
async function changeVariables(
  communicator: Communicator,
  variables: Variables,
  name: string,
  run: (change: (variable: tf.Variable, data: Float32Array) => void) => Promise<void>,
): Promise<void> {
  if (!communicator.isElastic) return run(assign);
  if (variables.length === 0) return; // no unit: it would have no collective
  const changed = new Map<tf.Variable, Float32Array>();
  const share = (root: number) => {
    for (const variable of variables) {
      const data = variable.dataSync().slice() as Float32Array;
      communicator.broadcastSync(bytesOf(data), { root, purpose: Purpose.Reunite });
      changed.set(variable, data);
    }
  };
  const change = (variable: tf.Variable, data: Float32Array) => void changed.set(variable, data);
  await communicator.units.run({ name, run: () => waitForPromise(run(change)), share });
  for (const [variable, data] of changed) assign(variable, data);
  changed.clear(); // the unit is kept until the next one
}

function assign(variable: tf.Variable, data: Float32Array): void {
  const value = tf.tensor(data, variable.shape, variable.dtype);
  variable.assign(value);
  value.dispose();
}
