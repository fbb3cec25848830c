import type { Agreed } from '../collectives/sparse-all-reduce';
import type { RouteName } from '../compression/compression-method';
import type { EntryRoute } from '../compression/dgc-options';
import type { Compression } from '../compression/dgc-options';
import type { KernelMemory } from '../kernel-memory';
import type { Pointer } from '../kernels/pointer';
import type { ArenaLayout } from './arena-layout';
import type { LinkCost } from './link-cost';

/** One memory of an exchange, and its layout. */
export interface ArenaPlan extends ArenaLayout {
  readonly memory: KernelMemory;
  /** Behind the arena: the scratch of each helper of {@link TensorThreads}. */
  readonly helperWorkspaces: readonly Pointer[];
}

/** What is the same in all steps of one wrapped optimizer. */
export interface ExchangePlan {
  /** The tensors are numbered over all arenas, from 0. */
  readonly arenas: readonly ArenaPlan[];
  readonly compression: Compression;
  readonly nesterov: boolean;
  /** By default each step takes the route that it expects to be fastest. For measurements. */
  readonly route?: EntryRoute | undefined;
  /** The hash of names, shapes and options, which must be the same on all ranks. */
  readonly hash: number;
}

/** The shapes of all tensors but those that are always sent whole. */
export function largeShapes(arenas: readonly ArenaLayout[]): (readonly number[])[] {
  return arenas.flatMap(({ tensors }) => tensors.filter(({ isWhole }) => !isWhole).map(({ shape }) => shape));
}

/** The input of a step, beside the gradients. */
export interface ExchangeStep {
  /** The number of the step. */
  readonly step?: number;
  /** Undefined if not known. */
  readonly epoch?: number | undefined;
  readonly learningRate?: number;
  /** The fraction of each large tensor that the step should send. */
  readonly density: number;
  /**
   * Whether the step may send everything if it takes the dense ring, where that costs nothing: because no step before
   * has held anything back. Default false.
   */
  readonly maySendAll?: boolean;
  /** What an earlier step has measured. Default: measured in this step, if it is needed. */
  readonly links?: LinkCost | undefined;
  /** Multiplies what is held back, before anything else. Default 1. */
  readonly residualScale?: number;
  readonly momentumFactor: number;
  /**
   * Multiplies the momentum that all ranks share, before it is applied, if the ring has another size than in the last
   * step. Default 1.
   */
  readonly momentumScale?: number;
  /** The sum over the whole gradient of this rank. */
  readonly sumOfSquares: number;
  /** Number of the first tensor whose gradient holds NaN or infinity on this rank. */
  readonly nonFiniteTensor?: number | undefined;
  /** What this rank tells the others with the step: a byte of bits. Default 0. */
  readonly notices?: number;
}

/** The outcome of a step. If a gradient was not finite, what was selected is still held back. */
export interface ExchangeResult extends Agreed {
  /** Bytes that this rank sent for the step, including forwarded ones and headers. */
  readonly bytesSent: number;
  /** Bytes that it would have sent for a dense ring all-reduce of the same gradient. */
  readonly denseBytes: number;
  readonly route: RouteName;
  /** The fraction of each large tensor that was sent. */
  readonly density: number;
  /** What the links cost, if that was measured in this step or before. */
  readonly links?: LinkCost | undefined;
  readonly timesMs: StepTimes;
}

/** How long the parts of a step took on this rank's comm thread, in ms. */
export interface StepTimes {
  /** Accumulating, selecting, and settling. */
  readonly compress: number;
  /** From entries to bytes, or making the messages of a compressor. 0 for the dense ring. */
  readonly encode: number;
  /**
   * Until the last frame has come: the network's time, waiting for late ranks, and on the dense ring the sums.
   */
  readonly travel: number;
  /**
   * From bytes, or the messages of a compressor, to the sum, and from the sum to the update. On the dense ring only the
   * latter.
   */
  readonly decode: number;
}
