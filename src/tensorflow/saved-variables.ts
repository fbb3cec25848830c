import type { tf } from './tfjs';
import type { ReadTensor, TensorFile } from '../checkpoint/checkpoint-file';
import type { LoadedCheckpoint } from '../checkpoint/load-checkpoint';
import { GradringError } from '../errors';
import { isOwnModel } from './one-copy';
import { describe, type Variables } from './replicas';
import { savedRankOf, type SavedVariable } from './saved-rank';
import { sourceOf, tensorsUnder } from './saved-tensor';
import { type Trained, trainedOf } from './trained';

/** The variables of a model, or of a custom loop. */
export function savedVariables(source: tf.LayersModel | Trained, variables: Variables): SavedVariable[] {
  const weights = isOwnModel(source) ? source.weights : [];
  return variables.map(({ name, dtype, shape }, i) => {
    return { name, given: weights[i]?.originalName ?? name, dtype, shape };
  });
}

/** The tensors of a rank's file that have the shape of a variable, and its name after this and a slash. */
const KINDS = ['momentum', 'sharedMomentum', 'residual', 'weight', 'start'];
const PREFIXES = [...KINDS, 'shared'].map(kind => `${kind}/`);

/**
 * What was read of a checkpoint, with the names that its variables have in this process.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH` if it does not fit this model and optimizer.
 */
export function fitted(
  { weights, own }: Pick<LoadedCheckpoint, 'weights' | 'own'>,
  source: tf.LayersModel | Trained,
): Pick<LoadedCheckpoint, 'weights' | 'own'> {
  const { variables, optimizer } = trainedOf(source, 'ring.checkpoint');
  const known = new Map(variables.map(variable => [variable.name, variable]));
  const here = savedVariables(source, variables);
  const names = own.map(file => {
    const saved = savedRankOf(file);
    const [before, now] = [saved.optimizer.optimizer, optimizer.getClassName()];
    if (before !== now) throw otherModel(`its optimizer is ${before}, but here it is ${now}.`);
    return matchVariables(saved.variables, here);
  });
  const files = own.map((file, i) => ({ ...file, tensors: renamed(file.tensors, names[i]!, PREFIXES) }));
  for (const { tensors } of files) {
    for (const kind of KINDS) requireSame(tensorsUnder(tensors, kind), known);
  }
  if (weights === undefined) return { weights, own: files };
  const tensors = renamed(weights.tensors, names[0]!, ['']);
  requireSame(tensors, known);
  const missing = variables.find(({ name }) => !tensors.has(name));
  if (missing !== undefined) throw otherModel(`it has no values of ${describe(missing)}.`);
  return { weights: { ...weights, tensors }, own: files };
}

/**
 * The names in this process of the variables of a checkpoint, by their names there. Variables are matched by name. If
 * the names do not fit, and differ only by the counters of TensorFlow.js, they are matched by their order: a model that
 * is built or loaded for the second time in a process has other counters in its names.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH`, naming the first variable that is missing, or has another type or shape.
 */
function matchVariables(saved: readonly SavedVariable[], own: readonly SavedVariable[]): ReadonlyMap<string, string> {
  const byName = new Map(saved.map(variable => [variable.name, variable]));
  const isByOrder =
    own.some(({ name }) => !byName.has(name)) &&
    own.length === saved.length &&
    own.every(({ given }, i) => withoutCounters(given) === withoutCounters(saved[i]!.given));
  const names = new Map<string, string>();
  own.forEach((variable, i) => {
    const before = isByOrder ? saved[i] : byName.get(variable.name);
    if (before === undefined) {
      const there = saved[i] === undefined ? '' : `, but ${describe(saved[i])} at its place`;
      throw otherModel(`it has no ${describe(variable)}${there}. ${ADVICE}`);
    }
    if (before.dtype !== variable.dtype || before.shape.join() !== variable.shape.join()) {
      throw otherModel(`it has ${describe(before)}, but here this is ${describe(variable)}.`);
    }
    names.set(before.name, variable.name);
  });
  const unknown = saved.find(({ name }) => !names.has(name));
  if (unknown !== undefined) throw otherModel(`it has ${describe(unknown)}, which this model does not have. ${ADVICE}`);
  return names;
}

const ADVICE =
  'Variables are matched by name, or by their order if only the counters of TensorFlow.js in their names differ. Build the model as it was, or give its layers the names that they had.';

/** The tensors, with the names that their variables have here after the prefixes. */
function renamed(
  tensors: TensorFile['tensors'],
  names: ReadonlyMap<string, string>,
  prefixes: readonly string[],
): TensorFile['tensors'] {
  const nameOf = (key: string) => {
    const prefix = prefixes.find(each => key.startsWith(each));
    const name = prefix === undefined ? undefined : names.get(key.slice(prefix.length));
    return name === undefined ? key : `${prefix}${name}`;
  };
  return new Map([...tensors].map(([key, tensor]) => [nameOf(key), tensor]));
}

/**
 * Checks that tensors of a checkpoint are those of variables here.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH`
 */
function requireSame(tensors: ReadonlyMap<string, ReadTensor>, known: ReadonlyMap<string, tf.Variable>): void {
  for (const [name, { type, shape }] of tensors) {
    const variable = known.get(name);
    const own = variable && sourceOf(name, variable);
    if (own?.type === type && own.shape.join() === shape.join()) continue;
    const here = variable === undefined ? 'which this model does not have' : `but here this is ${describe(variable)}`;
    throw otherModel(`it has '${name}' ${type}[${shape.join(', ')}], ${here}.`);
  }
}

function otherModel(what: string): GradringError {
  return new GradringError('ERR_MODEL_MISMATCH', `The checkpoint is of another model: ${what}`);
}

/**
 * A name without what TensorFlow.js counts in it: `dense_Dense/kernel` for a layer that it has called `dense_Dense7`,
 * because it was given no name, and nothing for a variable that it has called `7`.
 */
function withoutCounters(name: string): string {
  const layer = /(?<=^|\/)(\w+)_([A-Z]\w*?)\d+(?=\/|$)/g;
  const isOwnName = (prefix: string, className: string) => prefix.replaceAll('_', '').endsWith(className.toLowerCase());
  return name
    .replace(/^\d+$/, '')
    .replace(layer, (whole, prefix: string, className: string) =>
      isOwnName(prefix, className) ? `${prefix}_${className}` : whole,
    );
}
