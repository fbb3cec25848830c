import { bytesOf } from './bytes-of';
import { tf } from './tfjs';
import { createHash } from 'node:crypto';
import type { Communicator } from '../communicator/communicator';
import { GradringError, invalidArgument } from '../errors';

/** What replicas are made of: `model.weights`' values, or the variables of a custom loop. */
export type Variables = readonly tf.Variable[];

/**
 * The variables of a model (all weights, trainable or not), or those given.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` for variables of strings, which have no bits to compare or send.
 */
export function variablesOf(source: tf.LayersModel | Variables): Variables {
  const variables = 'weights' in source ? source.weights.map(weight => weight.read() as tf.Variable) : source;
  const ofStrings = variables.find(({ dtype }) => dtype === 'string');
  if (ofStrings !== undefined)
    throw invalidArgument(`Variable '${ofStrings.name}' holds strings, which do not travel.`);
  return variables;
}

/** SHA-256 of names, shapes and bits of the variables, in hexadecimal. */
export function hashOf(variables: Variables): string {
  const hash = createHash('sha256');
  for (const variable of variables) {
    const data = variable.dataSync();
    hash.update(`${variable.name} ${variable.dtype} [${variable.shape.join()}]\n`);
    hash.update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  }
  return hash.digest('hex');
}

/** Bytes for an all-gather of something small that must agree. */
export function toBytes(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

/** The inverse of {@link toBytes}. */
export function fromBytes<T>(bytes: Uint8Array): T {
  return JSON.parse(new TextDecoder().decode(bytes)) as T;
}

/**
 * Compares the hashes of all ranks.
 *
 * @throws GradringError `ERR_REPLICAS_DIVERGED`, naming the first rank that differs from rank 0.
 */
export function checkHashes(hashes: readonly string[], when: string): void {
  const rank = hashes.findIndex(hash => hash !== hashes[0]);
  if (rank === -1) return;
  const words = `The weights of rank ${rank} differ from those of rank 0 ${when}. Start from the same weights (pass ring.callbacks() to model.fit, or await ring.broadcastVariables(…)), and change them in no other way than by the wrapped optimizer.`;
  throw new GradringError('ERR_REPLICAS_DIVERGED', words, { rank });
}

/** Compares the variables of all ranks, bit for bit, and returns their hash. Throws as {@link checkHashes} does. */
export async function verifyReplicas(communicator: Communicator, variables: Variables, when: string): Promise<string> {
  const hash = hashOf(variables);
  checkHashes(await gatherValues(communicator, 'verifyReplicas', hash), when);
  return hash;
}

/**
 * Checks that all ranks hold the same variables: as many, of the same names, shapes and types, in the same order.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH`, naming the first difference.
 */
export async function checkSameVariables(communicator: Communicator, variables: Variables): Promise<void> {
  checkDescriptions(await gatherValues(communicator, 'checkSameVariables', variables.map(describe)));
}

/** Every rank's value, small JSON, by rank. A unit. */
async function gatherValues<T>(communicator: Communicator, name: string, own: T): Promise<T[]> {
  const gather = () => communicator.allGather(toBytes(own), { variableLength: true });
  return communicator.units.run({ name, run: async () => (await gather()).map(bytes => fromBytes<T>(bytes)) });
}

/** A variable in words that ranks compare. */
export function describe({ name, shape, dtype }: { name: string; shape: readonly number[]; dtype: string }): string {
  return `'${name}' ${dtype}[${shape.join(', ')}]`;
}

/** The comparison of {@link checkSameVariables}: one list of descriptions a rank. */
export function checkDescriptions(all: readonly (readonly string[])[]): void {
  const [first] = all;
  all.forEach((descriptions, rank) => {
    const longer = Math.max(descriptions.length, first!.length);
    for (let i = 0; i < longer; i++) {
      if (descriptions[i] === first![i]) continue;
      const words = `Ranks train different models: variable ${i} is ${first![i] ?? 'missing'} on rank 0, but ${descriptions[i] ?? 'missing'} on rank ${rank}.`;
      throw new GradringError('ERR_MODEL_MISMATCH', words, { rank });
    }
  });
}

/** Gives every rank the root's values, bit for bit. The variables must agree in all else. */
export async function broadcastVariables(
  communicator: Communicator,
  variables: Variables,
  root: number,
): Promise<void> {
  await changeVariables(communicator, variables, 'broadcastVariables', async change => {
    for (const variable of variables) {
      const data = (await variable.data()).slice() as Float32Array;
      await communicator.broadcast(bytesOf(data), { root });
      change(variable, data);
    }
  });
}

/** Averages float variables over the ranks. Those that are equal everywhere (frozen layers') keep their bits. */
export async function averageVariables(communicator: Communicator, variables: Variables): Promise<void> {
  const byRank = await gatherValues(
    communicator,
    'compareVariables',
    variables.map(variable => hashOf([variable])),
  );
  const differing = variables.filter(
    ({ dtype }, i) => dtype === 'float32' && byRank.some(hashes => hashes[i] !== byRank[0]![i]),
  );
  await changeVariables(communicator, differing, 'averageVariables', async change => {
    for (const variable of differing) {
      const data = (await variable.data()).slice() as Float32Array;
      change(variable, await communicator.allReduce(data, { op: 'mean' }));
    }
  });
}

/**
 * Changes variables by collectives, to values that are the same on all ranks: on all ranks or on none. So in an elastic
 * run nothing is changed before the last collective has returned, and the new values of all take memory at once.
 */
async function changeVariables(
  communicator: Communicator,
  variables: Variables,
  name: string,
  run: (change: (variable: tf.Variable, data: Float32Array) => void) => Promise<void>,
): Promise<void> {
  if (!communicator.isElastic) return run(assign);
  if (variables.length === 0) return; // no unit: nobody would wait for the others in it
  const changed = new Map<tf.Variable, Float32Array>();
  const share = (root: number) => {
    for (const variable of variables) {
      const data = variable.dataSync().slice() as Float32Array;
      communicator.broadcastSync(bytesOf(data), { root });
      changed.set(variable, data);
    }
  };
  const change = (variable: tf.Variable, data: Float32Array) => void changed.set(variable, data);
  await communicator.units.run({ name, run: () => run(change), share });
  for (const [variable, data] of changed) assign(variable, data);
  changed.clear(); // the unit is remembered
}

function assign(variable: tf.Variable, data: Float32Array): void {
  const value = tf.tensor(data, variable.shape, variable.dtype);
  variable.assign(value);
  value.dispose();
}
