import type { algorithmFor } from '../../collectives/dense-ring';
import type { Communicator, ElementType, Reduction } from '../../communicator/communicator';
import type { ConnectInput, Encryption, TransportName } from '../../rendezvous/connect-options';
import type { StepTimes } from '../../exchange/messages';
import type { ValueFormat } from '../../compression/value-format';

export type CollectiveName =
  'all-reduce' | 'all-gather' | 'reduce-scatter' | 'broadcast' | 'barrier' | 'sparse-all-reduce' | 'send-recv';

/** How entries of a sparse all-reduce travel; `auto` is the way that a training takes. */
export const WAYS = ['auto', 'sparse', 'dense'] as const;
export type Way = (typeof WAYS)[number];

/** One row's worth of work: a collective over arrays of one size. */
export interface Case {
  /** Of the whole operation: what busbw is defined on. 0 for a barrier. */
  readonly elements: number;
  readonly type: ElementType;
  readonly op: Reduction;
  readonly root: number;
  /** Iterations before those that are timed. */
  readonly warmUp: number;
  /** How long more of them follow, unchecked; 0 for none. */
  readonly warmUpMs: number;
  readonly iterations: number;
  /** Of a sparse all-reduce only. */
  readonly sparse?: { readonly density: number; readonly values: ValueFormat; readonly way: Way };
}

/** A whole run, as plain data that every rank gets alike. */
export interface Plan {
  readonly collective: CollectiveName;
  readonly cases: readonly Case[];
  readonly transport: TransportName;
  /** Left out, as the environment says. */
  readonly encryption?: Encryption;
  /** Whether every result is compared with what it must be. */
  readonly check: boolean;
}

/** What a rank connects with. */
export function linksOf({ transport, encryption }: Plan): ConnectInput {
  return { transport, ...(encryption && { encryption }) };
}

/** What a sparse all-reduce tells beyond its time. */
export interface SparseDetails {
  readonly travelled: 'sparse' | 'dense';
  readonly timesMs: StepTimes;
}

/** The parts of a sparse step, in ms: {@link StepTimes}, but `travel` parted. */
export interface SparseSplit extends Omit<StepTimes, 'travel'> {
  /**
   * For the slowest rank to have its payload ready. All begin together, so that is how much longer it compressed and
   * encoded.
   */
  readonly wait: number;
  /** The rest: the network's time. */
  readonly wire: number;
}

/** A case with its arrays, on one rank. */
export interface PreparedCase {
  /**
   * Writes an iteration's input. Not timed, and left out where an iteration is not checked, but for the first, and
   * unless there are `details`.
   */
  fill(iteration: number): void;
  /** The operation that is timed. */
  run(): void;
  /**
   * Compares the result of that iteration, which followed its `fill`; how many of this rank's elements are wrong. May
   * be collective itself.
   */
  countWrong(iteration: number): number;
  /** What the last run told, if it tells anything. */
  details?(): SparseDetails;
  release(): void;
}

/** A benchmark of one collective. */
export interface CollectiveBenchmark {
  readonly name: CollectiveName;
  /** In the list of benchmarks. */
  readonly describe: string;
  /** What the size of a row counts, for the help. */
  readonly sizeMeans?: string;
  /** Those of the options that only some collectives have. */
  readonly options: readonly ('sizes' | 'type' | 'op' | 'root' | 'sparse')[];
  /** The nearest number of elements that it can be done with. Left out, any. */
  readonly elementsFor?: (elements: number, ranks: number) => number;
  /** busbw ÷ algbw. */
  readonly busFactor: (ranks: number) => number;
  /** Which algorithm so many bytes take. Left out if there is only one. */
  readonly algorithmFor?: typeof algorithmFor;
  /** Allocates the arrays, the same on all ranks. */
  readonly prepare: (communicator: Communicator, measured: Case) => PreparedCase;
}
