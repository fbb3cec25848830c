import { createHash } from 'node:crypto';
import { type Communicator, Purpose } from '../communicator/communicator';
import { GradringError, invalidArgument } from '../errors';
import { shownName } from '../printable';
import { decodeValues, encodeValue } from '../rank-values';
import { type Check, isListOf, isText, isWith } from '../shape';
import { awake, waitFor, type Work } from '../work';
import { bytesOf } from './bytes-of';
import { inBrackets } from './shapes';

/** What the ranks compare of a variable, beside its values. */
export interface Described {
  readonly name: string;
  /** In the words of TensorFlow.js: `float32`. */
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** Hashes or descriptions of a rank's variables. */
export const areTexts = isListOf(isText);

/** SHA-256 of a variable's name, type, shape and bits, in hexadecimal. */
export function hashOf({ name, dtype, shape }: Described, values: ArrayBufferView): string {
  return createHash('sha256').update(`${name} ${dtype} [${shape.join()}]\n`).update(bytesOf(values)).digest('hex');
}

/**
 * Compares the hashes of all ranks.
 *
 * @param all The hashes of each rank, one for each variable.
 * @param when At which point of the training, in words.
 * @param advise Returns what to do, for the variables that differ.
 * @throws GradringError `ERR_REPLICAS_DIVERGED`, naming the first rank that differs from rank 0, and the variable.
 */
export function compareHashes<V extends { readonly name: string }>(
  all: readonly (readonly string[])[],
  variables: readonly V[],
  when: string,
  advise: (differing: readonly V[]) => string,
): void {
  const [first] = all;
  for (const [rank, hashes] of all.entries()) {
    const differing = variables.filter((_, i) => hashes[i] !== first![i]);
    const [variable] = differing;
    if (variable === undefined) continue;
    const others = differing.length === 1 ? '' : ` and ${differing.length - 1} more`;
    const words = `The weights of rank ${rank} differ from those of rank 0 ${when}: '${variable.name}'${others}. ${advise(differing)}`;
    throw new GradringError('ERR_REPLICAS_DIVERGED', words, { rank, variable: variable.name });
  }
}

/**
 * Which variables differ between the ranks: numbers. They can be averaged.
 *
 * @param hashes The hashes of this rank's variables.
 * @param types Which types can be averaged.
 * @throws GradringError `ERR_MODEL_MISMATCH` if names, types, shapes or order differ; `ERR_INVALID_ARGUMENT` if a
 *   variable of another type differs.
 */
export async function differingVariables(
  communicator: Communicator,
  variables: readonly Described[],
  hashes: readonly string[],
  { purpose, types }: { readonly purpose: Purpose; readonly types: readonly string[] },
): Promise<number[]> {
  const own = { variables: variables.map(describe), hashes: [...hashes] };
  const isOwn = isWith<typeof own>({ variables: areTexts, hashes: areTexts });
  const byRank = await awake(gatherValues(communicator, purpose, isOwn, own));
  checkDescriptions(byRank.map(of => of.variables));
  const differing = [...variables.keys()].filter(i => byRank.some(of => of.hashes[i] !== hashes[i]));
  const other = differing.map(i => variables[i]!).find(({ dtype }) => !types.includes(dtype));
  if (other !== undefined) {
    throw invalidArgument(
      `Variable '${other.name}' differs between the ranks, and is ${other.dtype}; only ${types.join(' and ')} variables can be averaged. ring.broadcastVariables(…) gives all ranks that of one.`,
    );
  }
  return differing;
}

/** The hash of what has these hashes. */
export function hashOfAll(hashes: readonly string[]): string {
  return createHash('sha256').update(hashes.join()).digest('hex');
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
export function describe({ name, shape, dtype }: Described): string {
  return `'${name}' ${dtype}${inBrackets(shape)}`;
}

/**
 * Compares names, types, shapes and order of the variables.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH`, naming the first difference.
 */
export async function checkSameVariables(
  communicator: Communicator,
  variables: readonly Described[],
  purpose: Purpose,
): Promise<void> {
  checkDescriptions(await awake(gatherValues(communicator, purpose, areTexts, variables.map(describe))));
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
