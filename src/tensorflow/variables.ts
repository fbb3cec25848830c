import { brief } from './brief';
import { bytesOf } from '../core/bytes-of';
import { areTexts, compareHashes, differingVariables, gatherValues, hashOf, hashOfAll } from '../core/replicas';
import { tf } from './tfjs';
import { type Communicator, Purpose } from '../communicator/communicator';
import { invalidArgument } from '../errors';
import { awake, waitForPromise } from '../work';
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

/** {@link hashOf} each variable. */
export function hashesOf(variables: Variables): string[] {
  return variables.map(variable => hashOf(variable, variable.dataSync() as ArrayBufferView));
}

/** What to do about variables in which the ranks differ. */
export function adviceFor(differing: Variables): string {
  return differing.every(({ trainable }) => !trainable)
    ? 'No gradient trains it, so it depends on the rows of each rank, like the moving statistics of batch norm: call ring.averageVariables(…) on all ranks before you compare.'
    : 'Start from the same weights (pass ring.callbacks() to model.fit, or await ring.broadcastVariables(…)), and change them only by the wrapped optimizer.';
}

/** Compares the variables of all ranks, bit for bit, and returns their hash. Throws as {@link compareHashes} does. */
export async function verifyReplicas(
  communicator: Communicator,
  variables: Variables,
  { when, purpose }: { readonly when: string; readonly purpose: Purpose },
): Promise<string> {
  const hashes = hashesOf(variables);
  const all = await awake(gatherValues(communicator, purpose, areTexts, hashes));
  compareHashes(all, variables, when, adviceFor);
  return hashOfAll(hashes);
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
 * @param share Whether this rank's variables are in the mean, and those of how many ranks. If not given, those of all
 *   ranks of the ring, which may shrink meanwhile.
 * @throws GradringError `ERR_MODEL_MISMATCH` if names, types, shapes or order differ; `ERR_INVALID_ARGUMENT` if a
 *   variable of another type differs.
 */
export async function averageVariables(
  communicator: Communicator,
  variables: Variables,
  purpose: Purpose,
  share?: { readonly isIn: boolean; readonly ranks: number },
): Promise<void> {
  const options = { purpose, types: ['float32'] };
  const differing = (await differingVariables(communicator, variables, hashesOf(variables), options)).map(
    i => variables[i]!,
  );
  await changeVariables(communicator, differing, 'averageVariables', async change => {
    for (const variable of differing) {
      const data = (await variable.data()).slice() as Float32Array;
      if (share?.isIn === false) data.fill(0);
      const reduced = await communicator.allReduce(data, { op: share === undefined ? 'mean' : 'sum', purpose });
      change(variable, share === undefined ? reduced : reduced.map(sum => sum / share.ranks));
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
