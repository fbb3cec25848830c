import type { ReadTensor, TensorFile } from '../checkpoint/checkpoint-file';
import { GradringError } from '../errors';
import type { StepCounters, VariableState } from './step-state';
import { tensorsUnder } from './saved-tensor';

/** What happens to each rank's momenta and residuals in a ring of another size: an option of checkpoints. */
export type ResidualPolicy = 'redistribute' | 'drop';

/** The size of the ring that saved, and a rank of the one that resumes. */
export interface Resizing {
  readonly savedWorldSize: number;
  readonly rank: number;
  readonly worldSize: number;
  readonly policy: ResidualPolicy | undefined;
  /**
   * Whether a rank's gradient has the same weight in the update at any size. Then the sum of u and v over the ranks
   * must stay the same, else the mean.
   */
  readonly keepsSum: boolean;
}

/**
 * The ranks whose files a rank reads. In a ring of the same size: its own. In a smaller ring: all that are congruent to
 * it. In a larger one a new rank reads the file of another, for what all ranks have in common.
 *
 * @throws GradringError `ERR_CHECKPOINT` for another size without a policy.
 */
export function ranksToRead({ savedWorldSize, rank, worldSize, policy }: Resizing): number[] {
  if (savedWorldSize === worldSize) return [rank];
  if (policy === undefined) {
    const words = `The checkpoint was saved by ${savedWorldSize} ranks, and this ring has ${worldSize}. Each rank's own residuals (what is not sent yet) must be redistributed: pass { residuals: 'redistribute' }, or 'drop' to forget them.`;
    throw new GradringError('ERR_CHECKPOINT', words);
  }
  if (policy === 'drop' || rank >= savedWorldSize) return [rank % savedWorldSize];
  const ranks: number[] = [];
  for (let saved = rank; saved < savedWorldSize; saved += worldSize) ranks.push(saved);
  return ranks;
}

/**
 * A rank's u and v, from the files of {@link ranksToRead}. The update depends on the mean of u and v over the ranks. So
 * that a ring of M ranks has the same mean as the ring of N that saved, a rank takes the sum over its files, times M/N;
 * new ranks take zero. In an elastic run the learning rate follows the size, and the sum stays without the factor.
 */
export function restoredStates(files: readonly TensorFile[], resizing: Resizing): VariableState[] {
  const share = shareOf(resizing);
  const { tensors } = files[0]!;
  return [...tensorsUnder(tensors, 'residual')].map(([name, { shape }]) =>
    stateOf({ name, shape }, tensors, kind => weightedSum(files, `${kind}/${name}`, share)),
  );
}

/**
 * The state of a variable: what all ranks have in common, and what is the rank's own.
 *
 * @param tensors What all have in common is among these, under its kind and a slash.
 * @param ownOf Gives u or v of the rank.
 */
export function stateOf(
  variable: Pick<VariableState, 'name' | 'shape'>,
  tensors: ReadonlyMap<string, ReadTensor>,
  ownOf: (kind: 'momentum' | 'residual') => Float32Array,
): VariableState {
  const common = tensors.get(`sharedMomentum/${variable.name}`);
  const kept = tensors.get(`shared/${variable.name}`);
  return {
    ...variable,
    momentum: common === undefined ? ownOf('momentum') : valuesOf(common),
    residual: ownOf('residual'),
    shared: kept === undefined ? new Float32Array(0) : valuesOf(kept),
    isMomentumShared: common !== undefined,
  };
}

/** The counters of a rank. If it has dropped what it had accumulated, no step waits for an exchange. */
export function resizedCounters(counters: StepCounters, resizing: Resizing): StepCounters {
  const { savedWorldSize, worldSize, policy } = resizing;
  const dropsSums = savedWorldSize !== worldSize && policy === 'drop' && counters.isLocal !== true;
  return dropsSums ? { ...counters, round: undefined } : counters;
}

/** The sums over the files of what is saved under a kind and a slash, by name. They are shared like residuals. */
export function sharedSums(
  files: readonly TensorFile[],
  resizing: Resizing,
  kind: string,
): { readonly name: string; readonly shape: readonly number[]; readonly values: Float32Array }[] {
  const share = shareOf(resizing);
  const shapes = new Map(
    files.flatMap(({ tensors }) => [...tensorsUnder(tensors, kind)].map(([name, { shape }]) => [name, shape] as const)),
  );
  return [...shapes].map(([name, shape]) => {
    return { name, shape, values: weightedSum(files, `${kind}/${name}`, share) };
  });
}

function shareOf({ savedWorldSize, rank, worldSize, policy, keepsSum }: Resizing): number {
  if (savedWorldSize === worldSize) return 1;
  if (policy === 'drop' || rank >= savedWorldSize) return 0;
  return keepsSum ? 1 : worldSize / savedWorldSize;
}

function weightedSum(files: readonly TensorFile[], name: string, weight: number): Float32Array {
  const all = files.map(({ tensors }) => tensors.get(name)).filter(tensor => tensor !== undefined);
  if (weight === 1 && all.length === 1) return valuesOf(all[0]!);
  const values = all.map(valuesOf);
  const sum = new Float32Array(values[0]?.length ?? 0);
  if (weight === 0) return sum;
  // Added in double precision, so the order does not matter, and only the result is rounded.
  return sum.map((_, i) => weight * values.reduce((total, each) => total + each[i]!, 0));
}

function valuesOf({ bytes }: ReadTensor): Float32Array {
  return new Float32Array(bytes.buffer);
}
