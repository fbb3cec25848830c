import type { CollectiveCall } from '../../collectives/collective-call';
import type { NonFinite } from '../../collectives/sparse-all-reduce';
import type { Means } from '../means';
import type { StepArena } from '../step-arena';
import type { StepClock } from '../step-clock';

/** How the gradients of a step travel from each rank to all. Each has a file; {@link ROUTES} has the list. */
export interface Route {
  /**
   * What a step of that load is expected to cost a rank. It depends only on what all ranks know, so that all make the
   * same choice. Undefined if no step should take this route unasked.
   */
  cost(load: StepLoad, prices: Prices): RouteCost | undefined;
  /**
   * Carries a step. Afterwards the gradients of all arenas are means over the ranks. The residuals are not touched:
   * they are settled when nothing of the step can fail any more.
   *
   * @returns what is not finite, on the lowest rank that has such a value. Then the gradients are undefined.
   */
  carry(step: RoutedStep): Promise<NonFinite | undefined>;
}

/** A step on its way. */
export interface RoutedStep {
  readonly call: CollectiveCall;
  readonly arenas: readonly StepArena[];
  /** The number of a tensor that is not finite on this rank. */
  readonly nonFiniteTensor: number | undefined;
  readonly means: Means;
  readonly clock: StepClock;
  /** The number of the step in its training. */
  readonly number: number;
}

/** What a rank sends in a step: the tensors that are sent whole, and the entries of the others. */
export interface StepLoad {
  readonly whole: EntryLoad;
  readonly others: EntryLoad;
}

/** All tensors of a step. */
export function allOf({ whole, others }: StepLoad): EntryLoad {
  return {
    elements: whole.elements + others.elements,
    entries: whole.entries + others.entries,
    payloadBytes: whole.payloadBytes + others.payloadBytes,
  };
}

export interface EntryLoad {
  /** Of the tensors. */
  readonly elements: number;
  /** How many of them are sent. */
  readonly entries: number;
  /** What the entries take in a payload. */
  readonly payloadBytes: number;
}

/** What a step is paid with in a ring of so many ranks. Times are in ns. */
export interface Prices {
  readonly worldSize: number;
  /** From an entry to bytes, and back to a sum. */
  readonly encodeNs: number;
  readonly decodeNs: number;
  /** A byte of a payload to a neighbour, and of the dense ring, with its sum. */
  readonly byteNs: number;
  readonly ringByteNs: number;
  /** What each hop adds to a byte of a payload, which is passed on when it has come whole. */
  readonly relayNs: number;
  /** A message without data to a neighbour. */
  readonly hopNs: number;
}

export interface RouteCost {
  /** What the rank computes by itself. */
  readonly computeNs: number;
  /** From the first message to the last. The sums of the dense ring are part of it. */
  readonly travelNs: number;
  readonly sentBytes: number;
}

/** The sum of what each has. */
export function sumOf<T>(all: readonly T[], value: (each: T) => number): number {
  return all.reduce((sum, each) => sum + value(each), 0);
}
