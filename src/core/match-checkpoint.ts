import type { ReadTensor, TensorFile } from '../checkpoint/checkpoint-file';
import type { LoadedCheckpoint } from '../checkpoint/load-checkpoint';
import { GradringError } from '../errors';
import type { Check } from '../shape';
import { describe } from './replicas';
import { type Position, savedRankOf, type SavedVariable } from './saved-rank';
import { tensorsUnder, typeOf } from './saved-tensor';

/** What a checkpoint must fit. */
export interface CheckpointFit {
  /** All variables of the training here. */
  readonly variables: readonly SavedVariable[];
  /** The class of the optimizer. */
  readonly optimizer: string;
  /** Whether a training here goes on from such a place. */
  readonly isPosition: Check<Position>;
  /** What to do if a variable has another name. */
  readonly advice: string;
  /**
   * The part of a name that is the same in each process. If the names do not fit, and these parts do, variables are
   * matched by their order. Undefined if names are always the program's own.
   */
  readonly lastingName?: (given: string) => string;
}

/** The tensors of a rank's file that have the shape of a variable, and its name after this and a slash. */
const KINDS = ['momentum', 'sharedMomentum', 'residual', 'weight', 'start'];
const PREFIXES = [...KINDS, 'shared'].map(kind => `${kind}/`);

/**
 * What was read of a checkpoint, with the names that its variables have in this process.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH` if it does not fit what is trained here.
 */
export function fitted(
  { weights, own }: Pick<LoadedCheckpoint, 'weights' | 'own'>,
  fit: CheckpointFit,
): Pick<LoadedCheckpoint, 'weights' | 'own'> {
  const { variables, optimizer: now, isPosition } = fit;
  const known = new Map(variables.map(variable => [variable.name, variable]));
  const names = own.map(file => {
    const saved = savedRankOf(file, isPosition);
    const before = saved.optimizer.optimizer;
    if (before !== now) throw otherModel(`its optimizer is ${before}, but here it is ${now}.`);
    return matchVariables(saved.variables, fit);
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
 * the names do not fit, they are matched by their order if {@link CheckpointFit.lastingName} allows it.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH`, naming the first variable that is missing, or has another type or shape.
 */
function matchVariables(
  saved: readonly SavedVariable[],
  { variables: own, advice, lastingName }: CheckpointFit,
): ReadonlyMap<string, string> {
  const byName = new Map(saved.map(variable => [variable.name, variable]));
  const isByOrder =
    lastingName !== undefined &&
    own.some(({ name }) => !byName.has(name)) &&
    own.length === saved.length &&
    own.every(({ given }, i) => lastingName(given) === lastingName(saved[i]!.given));
  const names = new Map<string, string>();
  own.forEach((variable, i) => {
    const before = isByOrder ? saved[i] : byName.get(variable.name);
    if (before === undefined) {
      const there = saved[i] === undefined ? '' : `, but ${describe(saved[i])} at its place`;
      throw otherModel(`it has no ${describe(variable)}${there}. ${advice}`);
    }
    if (before.dtype !== variable.dtype || before.shape.join() !== variable.shape.join()) {
      throw otherModel(`it has ${describe(before)}, but here this is ${describe(variable)}.`);
    }
    names.set(before.name, variable.name);
  });
  const unknown = saved.find(({ name }) => !names.has(name));
  if (unknown !== undefined) throw otherModel(`it has ${describe(unknown)}, which this model does not have. ${advice}`);
  return names;
}

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
function requireSame(tensors: ReadonlyMap<string, ReadTensor>, known: ReadonlyMap<string, SavedVariable>): void {
  for (const [name, { type, shape }] of tensors) {
    const variable = known.get(name);
    const isSame = variable !== undefined && typeOf(variable) === type && variable.shape.join() === shape.join();
    if (isSame) continue;
    const here = variable === undefined ? 'which this model does not have' : `but here this is ${describe(variable)}`;
    throw otherModel(`it has '${name}' ${type}[${shape.join(', ')}], ${here}.`);
  }
}

function otherModel(what: string): GradringError {
  return new GradringError('ERR_MODEL_MISMATCH', `The checkpoint is of another model: ${what}`);
}
