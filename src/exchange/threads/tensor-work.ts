import { setImmediate } from 'node:timers/promises';
import type { MessagePort } from 'node:worker_threads';
import type { Sums } from '../../collectives/sparse-all-reduce';
import type { MessageSeeds } from '../../compression/compressors/coded-treatment';
import { GradientCodec } from '../../compression/gradient-codec';
import { type Section, type SectionStreams, sectionsOf } from '../../compression/gradient-streams';
import type { TensorTreatment, TreatmentStep } from '../../compression/tensor-treatment';
import type { SerializedError } from '../../errors';
import type { Kernels, Pointer } from '../../kernels/kernels';
import type { ReceivedPayload } from '../../wire/gradient-payload';
import type { ExchangePlan } from '../messages';
import type { TensorPart } from '../routes/route';

/** What several threads do to the tensors of an arena. */
export type TensorWork = 'compress' | 'encode' | 'average' | 'settle' | MessageWork;

/** What they do to tensors that travel as messages. */
export type MessageWork = 'writeMessages' | 'addMessages';

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
  /** For `average`: those of all ranks. Their streams are in memory that all threads share. */
  readonly payloads: readonly ReceivedPayload[];
  /** For a {@link MessageWork}. */
  readonly messages?: MessageInput | undefined;
  /** The number of the first item. */
  readonly first: number;
}

/** Which tensors a {@link MessageWork} is for, and what it needs. Each tensor is an item. */
export interface MessageInput {
  /** The places of the tensors among those of the arena, the largest first. */
  readonly places: readonly number[];
  /** For `writeMessages`. */
  readonly seeds?: MessageSeeds;
  /** For `addMessages`. */
  readonly received?: ReceivedMessages | undefined;
}

/** The messages of all ranks for some tensors, in memory that all threads share. */
export interface ReceivedMessages {
  readonly bytes: Uint8Array;
  /** Where each message ends: those of all ranks for the first tensor, then for the next. */
  readonly ends: Uint32Array;
  readonly ranks: number;
}

/** Those for one of the tensors, by rank. */
export function messagesFor(item: number, { bytes, ends, ranks }: ReceivedMessages): Uint8Array[] {
  const first = item * ranks;
  return Array.from({ length: ranks }, (_, rank) => bytes.subarray(ends[first + rank - 1] ?? 0, ends[first + rank]));
}

/** What a helper tells before its item counts as done. */
export type HelperMessage =
  | { readonly item: number; readonly coded: SectionStreams }
  | { readonly item: number; readonly written: Uint8Array }
  | { readonly error: SerializedError };

/**
 * The items of a work, the same on all threads. One thread does an item: a section of the tensors, or one tensor, which
 * is a section by itself here.
 */
export function itemsOf(work: Exclude<TensorWork, MessageWork>, tensors: readonly TensorTreatment[]): Section[] {
  if (work === 'encode' || work === 'average') return sectionsOf(tensors);
  return bySize(tensors).map((from, number) => ({ number, of: tensors.length, from, until: from + 1 }));
}

/** The places of tensors, the largest first: else all threads would wait for it at the end. */
export function bySize(tensors: readonly TensorTreatment[]): number[] {
  return [...tensors.keys()].sort((a, b) => tensors[b]!.elementCount - tensors[a]!.elementCount);
}

/** What a thread works with in an arena. */
interface ThreadPlace {
  readonly kernels: Kernels;
  readonly codec: GradientCodec;
  /** Its scratch, and the end of that. */
  readonly workspace: Pointer;
  readonly end: Pointer;
}

/**
 * The sums over all ranks, in the place of the gradients. They become means region by region, while the cache has them.
 *
 * @param onOverflow Called for a tensor whose sum has overflowed, perhaps several times.
 */
export function meansIn(
  { kernels, codec, workspace, end }: ThreadPlace,
  tensors: readonly TensorTreatment[],
  worldSize: number,
  onOverflow: (tensor: TensorTreatment) => void,
): Sums {
  const start = workspace + GradientCodec.workspaceBytes;
  const sums = tensors.map(({ elementCount, gradient }) => ({ elementCount, sum: gradient }));
  const onSummed = (tensor: number, region: Pointer, count: number) => {
    if (!kernels.scale('float32', region, 1 / worldSize, count)) onOverflow(tensors[tensor]!);
  };
  return { kernels, codec, tensors: sums, room: { start, bytes: end - start }, onSummed };
}

/** What the first item that failed has thrown. */
export interface Failure {
  readonly error: unknown;
}

/**
 * Takes items of a command by turns with the other threads, until none is left, and runs each of them.
 *
 * @param first The number of the first item.
 * @returns the first failure. The other items are run all the same, because somebody waits for all of them.
 */
export function takeItems(
  control: Int32Array,
  first: number,
  count: number,
  run: (item: number) => void,
): Failure | undefined {
  let failure: Failure | undefined;
  for (let item; (item = takeItem(control, first, count)) !== undefined;) {
    const failed = runItem(control, count, item, run);
    failure ??= failed;
  }
  return failure;
}

/** The same, but the event loop turns before each item. */
export async function takeItemsByTurns(...given: Parameters<typeof takeItems>): Promise<Failure | undefined> {
  const [control, first, count, run] = given;
  let failure: Failure | undefined;
  for (;;) {
    await setImmediate();
    const item = takeItem(control, first, count);
    if (item === undefined) return failure;
    const failed = runItem(control, count, item, run);
    failure ??= failed;
  }
}

/**
 * The next item of a command that nobody has taken, undefined if there is none.
 *
 * A helper that is late finds that all have been taken, though other commands have followed: then the next item is not
 * one of these.
 */
function takeItem(control: Int32Array, first: number, count: number): number | undefined {
  for (;;) {
    const next = Atomics.load(control, CONTROL.next);
    const item = (next - first) | 0;
    if (item < 0 || item >= count) return undefined;
    if (Atomics.compareExchange(control, CONTROL.next, next, (next + 1) | 0) === next) return item;
  }
}

/** Runs an item. It counts as done, whatever it throws. */
function runItem(control: Int32Array, count: number, item: number, run: (item: number) => void): Failure | undefined {
  let failure: Failure | undefined;
  try {
    run(item);
  } catch (error) {
    failure = { error };
  }
  if (Atomics.add(control, CONTROL.done, 1) === count - 1) Atomics.notify(control, CONTROL.done);
  return failure;
}

/** What came of a work for a tensor: {@link TensorTreatment.largest}, or one of these. */
const OUTCOME = { notFinite: -1, noLargest: -2 } as const;

/**
 * Notes for the other threads what came of a work for a tensor.
 *
 * @param outcomes By the number of the tensor.
 * @param isFinite Whether its entries are, or its sum.
 */
export function noteOutcome(outcomes: Float64Array, tensor: TensorTreatment, isFinite: boolean): void {
  outcomes[tensor.number] = isFinite ? (tensor.largest ?? OUTCOME.noLargest) : OUTCOME.notFinite;
}

/** Takes over what came of it on any thread. Returns whether its entries, or its sum, are finite. */
export function takeOutcome(outcomes: Float64Array, tensor: TensorTreatment): boolean {
  const outcome = outcomes[tensor.number]!;
  tensor.largest = outcome < 0 ? undefined : outcome;
  return outcome !== OUTCOME.notFinite;
}
