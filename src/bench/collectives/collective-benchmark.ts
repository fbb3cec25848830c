import type { algorithmFor } from '../../collectives/dense-ring';
import type { Communicator, ElementType, Reduction } from '../../communicator/communicator';
import type { TransportName } from '../../environment/rank-options';
import type { ConnectInput } from '../../rendezvous/connect-options';
import type { RouteName } from '../../compression/compression-method';
import type { StepTimes } from '../../exchange/messages';
import type { ValueFormat } from '../../compression/value-format';
import type { TensorShape } from '../models/tensor-shape';

export type CollectiveName =
  | 'all-reduce'
  | 'all-gather'
  | 'reduce-scatter'
  | 'broadcast'
  | 'barrier'
  | 'reduce'
  | 'gather'
  | 'scatter'
  | 'all-to-all'
  | 'sparse-all-reduce'
  | 'send-recv'
  | 'send';

/** All but uint16, which cannot be reduced: what only moves takes as long as float16. */
export const TYPES = ['float32', 'float64', 'float16', 'bfloat16', 'int32', 'int64', 'uint64', 'uint8'] as const;

export const REDUCTIONS: readonly Reduction[] = ['sum', 'product', 'mean', 'min', 'max'];

/** How entries of a sparse all-reduce are sent. `auto` chooses as a training does. */
export const WAYS = ['auto', 'sparse', 'dense', 'scatter'] as const;
export type Way = (typeof WAYS)[number];

/** What is measured of a sparse all-reduce. */
export interface SparseCase {
  /** 1 for the step of a training without compression. */
  readonly density: number;
  readonly values: ValueFormat;
  /** `mixed` needs tensors that are sent whole. */
  readonly way: Way | 'mixed';
  /** Those of the gradient, as many elements as the case has. Default: one tensor, which is sent sparse. */
  readonly tensors?: readonly TensorShape[];
}

/** What is measured for one row: a collective over arrays of one size. */
export interface Case {
  /** The elements of the whole operation, on which busbw is defined. 0 for a barrier. */
  readonly elements: number;
  readonly type: ElementType;
  readonly op: Reduction;
  readonly root: number;
  /** Iterations before the timed ones. */
  readonly warmUp: number;
  /** How long more such iterations follow, which are not checked; 0 for none. */
  readonly warmUpMs: number;
  readonly iterations: number;
  /** For a sparse all-reduce only. */
  readonly sparse?: SparseCase;
}

/** A whole run, as plain data. All ranks get the same plan. */
export interface Plan {
  readonly collective: CollectiveName;
  readonly cases: readonly Case[];
  /** How each rank connects. The environment says the rest. */
  readonly links: Pick<ConnectInput, 'encryption' | 'linkRate' | 'linkDelay'> & { readonly transport: TransportName };
  /** Whether results are compared with the expected ones. */
  readonly check: boolean;
}

/** What a sparse all-reduce reports beside its time. */
export interface SparseDetails {
  readonly travelled: RouteName;
  readonly timesMs: StepTimes;
}

/** The parts of a sparse step, in ms: {@link StepTimes}, with `travel` split into two. */
export interface SparseSplit extends Omit<StepTimes, 'travel'> {
  /**
   * The wait for the payload of the slowest rank. All ranks begin together, so it is how much longer that rank took to
   * compress and encode.
   */
  readonly wait: number;
  /** The rest: the time of the network. */
  readonly wire: number;
}

/** A case and its arrays, on one rank. */
export interface PreparedCase {
  /**
   * Writes the input of an iteration; not timed. It is called before the first iteration and before those that are
   * checked; if there are `details`, before all.
   */
  fill(iteration: number): void;
  /** The operation that is timed. */
  run(): void;
  /**
   * Compares the result of an iteration that followed its `fill`. Returns how many elements of this rank are wrong. It
   * may call collectives, so all ranks call it.
   */
  countWrong(iteration: number): number;
  /** What the last run reported, if it reports anything. */
  details?(): SparseDetails;
  release(): void;
}

/** A benchmark of one collective. */
export interface CollectiveBenchmark {
  readonly name: CollectiveName;
  /** The description in the list of benchmarks. */
  readonly describe: string;
  /** What the size of a row means, for the help. */
  readonly sizeMeans?: string;
  /** The options that this collective has, of those that only some collectives have. */
  readonly options: readonly ('sizes' | 'type' | 'op' | 'root' | 'sparse')[];
  /** The nearest number of elements that is possible. Default: all numbers are. */
  readonly elementsFor?: (elements: number, ranks: number) => number;
  /** busbw ÷ algbw. */
  readonly busFactor: (ranks: number) => number;
  /** How the ring does it with so many bytes. Left out if it is always the same. */
  readonly algorithmFor?: typeof algorithmFor;
  /** Allocates the arrays, the same ones on all ranks. */
  readonly prepare: (communicator: Communicator, measured: Case) => PreparedCase;
}
