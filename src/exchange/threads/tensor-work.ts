import type { MessagePort } from 'node:worker_threads';
import type { CodedPart } from '../../compression/gradient-codec';
import type { TensorTreatment, TreatmentStep } from '../../compression/tensor-treatment';
import type { SerializedError } from '../../errors';
import type { ExchangePlan } from '../messages';
import type { TensorPart } from '../routes/route';

/** What several threads do to the tensors of an arena. */
export type TensorWork = 'compress' | 'encode' | 'settle';

/** Words of the control block that all threads share. */
export const CONTROL = {
  /** Counts the commands. A helper sleeps on it. */
  commands: 0,
  /** The number of the next item that nobody has taken. It goes on over all commands, and wraps around. */
  next: 1,
  /** How many items of this command are done. The comm thread sleeps on it. */
  done: 2,
  words: 3,
} as const;

/** What a helper thread starts with. */
export interface HelperData {
  readonly plan: ExchangePlan;
  /** Which of the {@link ArenaPlan.helperWorkspaces} are its own. */
  readonly helper: number;
  readonly control: Int32Array;
  readonly outcomes: Float64Array;
  readonly port: MessagePort;
}

/** What the helpers are asked to do. */
export interface HelperCommand {
  readonly work: TensorWork;
  /** The number of the arena, and which of its tensors. */
  readonly arena: number;
  readonly part: TensorPart;
  readonly step: TreatmentStep;
  /** For `settle`: whether of what was sent only a part was applied. */
  readonly onlyApplied: boolean;
  /** The number of the first item. */
  readonly first: number;
  readonly threads: number;
}

/** What a helper tells before its item counts as done. */
export type HelperMessage = { readonly item: number; readonly coded: CodedPart } | { readonly error: SerializedError };

/** The tensors `from` to `until` − 1 of an arena. One thread does them. */
export interface Item {
  readonly from: number;
  readonly until: number;
}

/** Into how many parts of about the same size each thread's share of the entries is cut, so that none waits long. */
const PARTS_OF_A_SHARE = 4;

/** The items of a work, the same on all threads. */
export function itemsOf(work: TensorWork, tensors: readonly TensorTreatment[], threads: number): Item[] {
  if (work === 'encode') return partsOf(tensors, PARTS_OF_A_SHARE * threads);
  // The largest first, or all threads would wait for it at the end.
  const bySize = [...tensors.keys()].sort((a, b) => tensors[b]!.elementCount - tensors[a]!.elementCount);
  return bySize.map(from => ({ from, until: from + 1 }));
}

/** Cuts tensors into at most so many runs, each with about the same number of entries. */
function partsOf(tensors: readonly TensorTreatment[], parts: number): Item[] {
  const most = tensors.reduce((sum, { count }) => sum + count, 0) / parts;
  const items: Item[] = [];
  let [from, entries] = [0, 0];
  for (const [i, { count }] of tensors.entries()) {
    entries += count;
    if (entries < most && i < tensors.length - 1) continue;
    items.push({ from, until: i + 1 });
    [from, entries] = [i + 1, 0];
  }
  return items;
}

/**
 * Takes items of a command by turns with the other threads, until none is left, and runs each of them.
 *
 * A helper that is late finds that all have been taken, though other commands have followed: then the next item is not
 * one of these.
 *
 * @param first The number of the first item.
 * @returns the first error. The other items are run all the same, because somebody waits for all of them.
 */
export function takeItems(
  control: Int32Array,
  first: number,
  count: number,
  run: (item: number) => void,
): { readonly error: unknown } | undefined {
  let failure: { readonly error: unknown } | undefined;
  for (;;) {
    const next = Atomics.load(control, CONTROL.next);
    const item = (next - first) | 0;
    if (item < 0 || item >= count) return failure;
    if (Atomics.compareExchange(control, CONTROL.next, next, (next + 1) | 0) !== next) continue;
    try {
      run(item);
    } catch (error) {
      failure ??= { error };
    }
    if (Atomics.add(control, CONTROL.done, 1) === count - 1) Atomics.notify(control, CONTROL.done);
  }
}

/** The outcome of `compress` for a tensor: {@link TensorTreatment.largest}, or one of these. */
const OUTCOME = { notFinite: -1, noLargest: -2 } as const;

/**
 * Notes for the other threads what came of compressing a tensor.
 *
 * @param outcomes By the number of the tensor.
 * @param isFinite Whether its entries are.
 */
export function noteOutcome(outcomes: Float64Array, tensor: TensorTreatment, isFinite: boolean): void {
  outcomes[tensor.number] = isFinite ? (tensor.largest ?? OUTCOME.noLargest) : OUTCOME.notFinite;
}

/** Takes over what came of it on any thread. Returns whether its entries are finite. */
export function takeOutcome(outcomes: Float64Array, tensor: TensorTreatment): boolean {
  const outcome = outcomes[tensor.number]!;
  tensor.largest = outcome < 0 ? undefined : outcome;
  return outcome !== OUTCOME.notFinite;
}
