import type { NonFinite } from '../collectives/sparse-all-reduce';
import type { Compression } from '../compression/dgc-options';
import type { ArenaLayout } from './arena-layout';

/** How a step's entries travel: as a sparse all-gather, or by the dense ring all-reduce. */
export type Travel = 'sparse' | 'dense';

/** One memory of an exchange, and what lies in it. */
export interface ArenaPlan extends ArenaLayout {
  readonly memory: WebAssembly.Memory;
}

/** What stays the same over all steps of one wrapped optimizer. */
export interface ExchangePlan {
  /** Their tensors, one arena after the other, are numbered through. */
  readonly arenas: readonly ArenaPlan[];
  readonly compression: Compression;
  readonly nesterov: boolean;
  /** How entries travel. By default each step takes what it expects to be faster. For measurements. */
  readonly travel?: Travel;
  /** Of names, shapes and options, which all ranks must have alike. */
  readonly hash: number;
}

/** One step of it. */
export interface ExchangeStep {
  /** Its number. */
  readonly step?: number;
  /** Undefined if nobody counts epochs. */
  readonly epoch?: number | undefined;
  readonly learningRate?: number;
  readonly density: number;
  readonly momentumFactor: number;
  /**
   * Multiplies the momentum of what travels whole, before anything else: for when the ring has another size than in the
   * last step. Default 1.
   */
  readonly momentumCorrection?: number;
  /** Of the whole local gradient. */
  readonly sumOfSquares: number;
  /** Number of the first tensor with NaN or infinity in the local gradient, or −1. */
  readonly nonFiniteTensor: number;
}

/** What came of a step. */
export interface ExchangeResult {
  /**
   * Set if some rank's gradient was not finite: then no rank has an update, and what was to be sent is still held back.
   */
  readonly nonFinite?: NonFinite;
  /** Bytes this rank sent for the step, forwarded ones and headers among them. */
  readonly bytesSent: number;
  /** Bytes it would have sent for a dense ring all-reduce of the same gradient. */
  readonly denseBytes: number;
  /** How the entries travelled. */
  readonly travel: Travel;
  readonly timesMs: StepTimes;
}

/** How long a step spent on what, on this rank's comm thread, in ms. */
export interface StepTimes {
  /** Accumulating, selecting, and taking from the residuals what was sent. */
  readonly compress: number;
  /** From entries to bytes. 0 where all travels by the dense ring. */
  readonly encode: number;
  /**
   * Until the last frame had come, on the dense ring with the adding up: the network's time, and waiting for those who
   * come late.
   */
  readonly travel: number;
  /** From bytes to the sum, and to the mean; on the dense ring only the latter. */
  readonly decode: number;
}
