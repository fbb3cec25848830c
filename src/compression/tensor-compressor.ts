import { invalidArgument } from '../errors';
import {
  HISTOGRAM_BYTES,
  INFINITE_MAGNITUDE,
  PACK_TABLE_BYTES,
  type Accumulation,
  type IndexedValues,
  type Kernels,
  type Magnitude,
  type Pointer,
} from '../kernels/kernels';

/** Where a tensor and its state lie, each of `elementCount` float32, 16-byte aligned. Zeros at first are the caller's. */
export interface TensorSegment {
  readonly elementCount: number;
  /** The local mean gradient; read only. */
  readonly gradient: Pointer;
  /** The paper's u. */
  readonly momentum: Pointer;
  /** The paper's v: what was accumulated and not sent yet. */
  readonly residual: Pointer;
}

/** One step of one tensor. */
export interface CompressInput extends IndexedValues {
  /** k: how many elements to send, 0 to elementCount. */
  readonly count: number;
  readonly momentumFactor: number;
  readonly nesterov: boolean;
  /** Multiplies the gradient before anything else: the clip factor. */
  readonly gradientScale: number;
  /** Room for `count` uint32, to be written. Like `values`, aligned to 4 bytes and apart from everything else. */
  readonly indices: Pointer;
  /** Room for `count` float32, to be written. */
  readonly values: Pointer;
}

/** The magnitudes between which the k-th largest is expected. */
interface Band {
  readonly lowest: Magnitude;
  readonly highest: Magnitude;
}

/** The k-th largest magnitude, and how many of those that equal it are among the k largest. */
interface Threshold {
  readonly magnitude: Magnitude;
  readonly ties: number;
}

/** The smallest and largest number of blocks of four elements that are sampled, and the fraction in between. */
const MIN_SAMPLE_BLOCKS = 64;
const MAX_SAMPLE_BLOCKS = 4096;
const ELEMENTS_PER_SAMPLE_BLOCK = 64;

/** Tensors up to this size are gathered without asking for a sample. */
const SAMPLE_FROM = 4 * MIN_SAMPLE_BLOCKS;

/**
 * Deep Gradient Compression of one tensor (Lin et al. 2018, Algorithm 1 with momentum correction and masking), in
 * shared memory, on the thread that calls.
 *
 * The selection is exact whatever the distribution: the k largest |v| of the tensor, of equal ones those of lower index.
 * How it is found:
 *
 * 1. A sample of at most 16,384 elements tells a band of magnitudes in which the k-th largest almost surely lies.
 * 2. One pass over the tensor updates u and v, gathers the elements within the band and counts those above it.
 * 3. If few enough are to be sent, the band has no upper end, and the sent ones are picked from the gathered ones. If
 *    they are many, the gathered ones only tell the exact threshold, and a second pass over v picks those sent.
 *
 * A sample that misled costs time, never exactness: then a histogram of all of v finds the threshold.
 */
export class TensorCompressor {
  private readonly capacity: number;
  private readonly histogram: Pointer;
  private readonly packTable: Pointer;
  private readonly candidates: IndexedValues;

  /**
   * @param workspace Scratch of {@link workspaceBytes}, 16-byte aligned, which `compress` overwrites. It holds nothing
   *   between calls, so all compressors of a thread may share one that is large enough for the largest tensor.
   */
  constructor(
    private readonly kernels: Kernels,
    private readonly segment: TensorSegment,
    workspace: Pointer,
  ) {
    this.capacity = candidateCapacity(segment.elementCount);
    this.histogram = workspace;
    this.packTable = this.histogram + HISTOGRAM_BYTES;
    const values = this.packTable + PACK_TABLE_BYTES;
    this.candidates = { values, indices: values + candidateBytes(this.capacity) };
  }

  /**
   * Bytes of workspace for tensors of up to so many elements: about half a byte an element, from 512 KiB on for all but
   * small tensors. Never falls as the count rises.
   */
  static workspaceBytes(elementCount: number): number {
    return HISTOGRAM_BYTES + PACK_TABLE_BYTES + 2 * candidateBytes(candidateCapacity(elementCount));
  }

  /**
   * Accumulates the gradient into u and v (see {@link Accumulation}), then writes exactly `count` entries, those of the
   * largest |v|, to `indices` and `values`, in ascending order of the indices. `values` are those of v, unchanged.
   *
   * u and v keep what is sent until {@link mask} is called, so that a step whose exchange failed loses nothing. The
   * gradient must be finite; with NaN in it the entries are meaningless, yet their number and indices are valid.
   *
   * @throws ERR_INVALID_ARGUMENT, before anything is changed, if `count` is not a whole number of 0 to elementCount.
   */
  compress(input: CompressInput): void {
    const { elementCount } = this.segment;
    const { count, gradientScale, momentumFactor, nesterov } = input;
    if (!Number.isInteger(count) || count < 0 || count > elementCount) {
      throw invalidArgument(`Cannot send ${count} of the ${elementCount} elements of a tensor`);
    }
    const { kernels, candidates, capacity, packTable } = this;
    const { residual } = this.segment;
    const accumulation: Accumulation = { ...this.segment, gradientScale, momentumFactor, nesterov };

    const band = this.expectedBand(accumulation, count);
    const gathering = { ...band, into: candidates, capacity, packTable };
    const { within, above } = kernels.accumulate(accumulation, gathering);
    if (count === 0) return;

    const { magnitude, ties } = this.threshold(count, band, within, above);
    const taking = { threshold: magnitude, ties, count, into: input, packTable };
    const allGathered = above === 0 && within <= capacity && magnitude >= band.lowest;
    if (allGathered) kernels.takeLargest(candidates.values, candidates.indices, within, taking);
    else kernels.takeLargest(residual, undefined, elementCount, taking);
  }

  /** Clears u and v at the indices that were sent (momentum factor masking, section 3.3 of the paper). */
  mask(indices: Pointer, count: number): void {
    this.kernels.clearAt(this.segment.momentum, indices, count);
    this.kernels.clearAt(this.segment.residual, indices, count);
  }

  /** A band in which the k-th largest magnitude will almost surely lie, and few enough others to be gathered. */
  private expectedBand(accumulation: Accumulation, count: number): Band {
    const { elementCount } = accumulation;
    // When nothing or everything is sent, no threshold is to be found.
    if (count === 0 || count === elementCount) return { lowest: INFINITE_MAGNITUDE, highest: INFINITE_MAGNITUDE };
    if (elementCount <= SAMPLE_FROM) return { lowest: 1, highest: INFINITE_MAGNITUDE };

    const blockCount = Math.min(
      MAX_SAMPLE_BLOCKS,
      Math.max(MIN_SAMPLE_BLOCKS, Math.floor(elementCount / ELEMENTS_PER_SAMPLE_BLOCK)),
    );
    const sampleCount = 4 * blockCount;
    // The candidates' place is free until the pass that gathers them.
    const sample = this.candidates.values;
    this.kernels.sampleAccumulation(accumulation, blockCount, sample);
    const magnitudeOfRank = (rank: number) => this.kernels.magnitudeOfRank(sample, sampleCount, rank, this.histogram);

    const fraction = count / elementCount;
    const expectedRank = fraction * sampleCount;
    // Six standard deviations of the rank; three if the elements of each block are all alike.
    const margin = 4 + 6 * Math.sqrt(expectedRank * (1 - fraction));
    const lowRank = Math.ceil(expectedRank + margin);
    const highRank = Math.floor(expectedRank - margin);
    // Zeros are never gathered, as a tensor may have too many: `threshold` knows that those left out are zeros.
    const lowest = lowRank > sampleCount ? 1 : Math.max(1, magnitudeOfRank(lowRank));
    const gatheredIfOpen = (lowRank / sampleCount) * elementCount;
    const open = highRank < 1 || gatheredIfOpen < this.capacity / 2;
    return { lowest, highest: open ? INFINITE_MAGNITUDE : Math.max(lowest, magnitudeOfRank(highRank)) };
  }

  /** The exact threshold, from the gathered elements where they suffice. */
  private threshold(count: number, band: Band, within: number, above: number): Threshold {
    const { kernels, candidates, capacity, histogram } = this;
    const { elementCount, residual } = this.segment;
    // All are sent: all but the zeros lie above this magnitude, and there are ties enough for those.
    if (count === elementCount) return { magnitude: 0, ties: elementCount };
    // All but zeros were counted, and were too few.
    if (above + within < count && band.lowest === 1) return { magnitude: 0, ties: count - above - within };

    const amongGathered = above < count && count <= above + within && within <= capacity;
    if (amongGathered) {
      const magnitude = kernels.magnitudeOfRank(candidates.values, within, count - above, histogram);
      const larger = above + kernels.countAbove(candidates.values, within, magnitude);
      return { magnitude, ties: count - larger };
    }
    const magnitude = kernels.magnitudeOfRank(residual, elementCount, count, histogram);
    return { magnitude, ties: count - kernels.countAbove(residual, elementCount, magnitude) };
  }
}

/** Room for every element of a small tensor, and a sixteenth of those of a large one. */
function candidateCapacity(elementCount: number): number {
  return Math.min(elementCount, Math.max(65536, Math.ceil(elementCount / 16)));
}

/** An array of candidates, with the four entries more that the kernels ask for, in whole units of 16 bytes. */
function candidateBytes(capacity: number): number {
  return 16 * Math.ceil((capacity + 4) / 4);
}
