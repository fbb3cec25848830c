import { invalidArgument } from '../errors';
import {
  GATHER_BLOCK,
  HISTOGRAM_BYTES,
  PACK_TABLE_BYTES,
  type Accumulation,
  type Gathered,
  type IndexedValues,
  type Kernels,
  type Magnitude,
  type Pointer,
} from '../kernels/kernels';
import { INFINITE_MAGNITUDE } from '../kernels/pointer';

/** A tensor and its state in the memory of the kernels: each `elementCount` float32, 16-byte aligned. */
export interface TensorState {
  readonly elementCount: number;
  /** The mean gradient of this rank before a step, the update after it. */
  readonly gradient: Pointer;
  /** The paper's u. For tensors that are sent whole, the momentum of the average over all ranks. */
  readonly momentum: Pointer;
  /** The paper's v: what is held back. For tensors that are sent whole, what rounding has lost. */
  readonly residual: Pointer;
}

/** One step of one tensor. */
export interface CompressInput extends IndexedValues {
  /** k: how many elements are sent, 0 to elementCount. */
  readonly count: number;
  readonly momentumFactor: number;
  readonly nesterov: boolean;
  /** The clip factor. It multiplies the gradient before anything else. */
  readonly gradientScale: number;
  /** Room for `count` uint32. Aligned to 4 bytes, and used for nothing else, as `values` is. */
  readonly indices: Pointer;
  /** Room for `count` float32. */
  readonly values: Pointer;
}

/** The magnitudes between which the k-th largest should be. */
interface Band {
  readonly lowest: Magnitude;
  readonly highest: Magnitude;
}

/** The k-th largest magnitude, and how many of the elements that equal it are among the k largest. */
interface Threshold {
  readonly magnitude: Magnitude;
  readonly ties: number;
}

/** How many blocks of sixteen elements are sampled: one for 256 elements, within these limits. */
const MIN_SAMPLE_BLOCKS = 64;
const MAX_SAMPLE_BLOCKS = 2048;
const ELEMENTS_PER_SAMPLE_BLOCK = 256;
const SAMPLE_BLOCK = 16;

/** Tensors up to this size need no sample. */
const SAMPLE_FROM = 2 * SAMPLE_BLOCK * MIN_SAMPLE_BLOCKS;

/** The largest magnitude of all, including those of NaN. */
const LARGEST_MAGNITUDE: Magnitude = 0x7fffffff;

/** How many entries more than its capacity a place must have room for. */
const GATHER_SLACK = GATHER_BLOCK + 4;

/**
 * Deep Gradient Compression of one tensor (Lin et al. 2018, Algorithm 1 with momentum correction and masking), in
 * shared memory, on the calling thread.
 *
 * The selection is exact for any distribution: the k largest |v| of the tensor; among equal ones, those of lower index.
 * It takes three stages:
 *
 * 1. A sample of at most 32,768 elements gives a band of magnitudes in which the k-th largest almost surely lies.
 * 2. One pass over the tensor updates u and v and gathers the elements from the band's lower end on: first where the
 *    entries go, then in the workspace.
 * 3. The elements within the band give the exact threshold, and entries that do not reach it are dropped.
 *
 * A misleading sample costs more passes over v, never exactness.
 */
export class TensorCompressor {
  private readonly capacity: number;
  private readonly histogram: Pointer;
  private readonly packTable: Pointer;
  private readonly candidates: IndexedValues;

  /**
   * @param workspace Scratch of {@link workspaceBytes}, 16-byte aligned. It holds nothing between calls, so all
   *   compressors of a thread may share one that is large enough for the largest tensor.
   */
  constructor(
    private readonly kernels: Kernels,
    private readonly state: TensorState,
    workspace: Pointer,
  ) {
    this.capacity = candidateCapacity(state.elementCount);
    this.histogram = workspace;
    this.packTable = this.histogram + HISTOGRAM_BYTES;
    const values = this.packTable + PACK_TABLE_BYTES;
    this.candidates = { values, indices: values + candidateBytes(this.capacity) };
  }

  /**
   * Bytes of workspace for tensors of up to this many elements: about half a byte for each element, but at least 536
   * KiB for tensors that are not small. Never less for more elements.
   */
  static workspaceBytes(elementCount: number): number {
    return HISTOGRAM_BYTES + PACK_TABLE_BYTES + 2 * candidateBytes(candidateCapacity(elementCount));
  }

  /**
   * Accumulates the gradient into u and v (see {@link Accumulation}), then writes exactly `count` entries, those of the
   * largest |v|, to `indices` and `values`, in ascending order of the indices. `values` are the elements of v. Returns
   * the largest magnitude among them, 0 if there are none.
   *
   * u and v keep what is sent until {@link settle} is called, so a step whose exchange failed loses nothing. The
   * gradient must be finite. If it holds NaN, the values are meaningless, but the number of entries and the indices are
   * valid.
   *
   * @throws ERR_INVALID_ARGUMENT, before anything is changed, if `count` is not a whole number of 0 to elementCount.
   */
  compress(input: CompressInput): Magnitude {
    const { elementCount } = this.state;
    const { count, gradientScale, momentumFactor, nesterov } = input;
    if (!Number.isInteger(count) || count < 0 || count > elementCount) {
      throw invalidArgument(`Cannot send ${count} of the ${elementCount} elements of a tensor`);
    }
    const { kernels, candidates, capacity, packTable } = this;
    const accumulation: Accumulation = { ...this.state, gradientScale, momentumFactor, nesterov };

    const band = this.expectedBand(accumulation, count);
    const { indices, values } = input;
    const gathered = kernels.accumulate(accumulation, {
      lowest: band.lowest,
      first: { indices, values, capacity: count - GATHER_SLACK },
      second: { ...candidates, capacity },
      packTable,
    });
    if (count === 0) return 0;

    const { magnitude, ties } = this.threshold(input, band, gathered);
    const taking = { threshold: magnitude, ties, count, into: input, packTable };
    const { inFirst, inSecond } = gathered;
    if (inSecond > capacity || magnitude < band.lowest) {
      return kernels.takeLargest(this.state.residual, undefined, elementCount, taking).largest;
    }
    const taken = kernels.takeLargest(values, indices, inFirst, taking);
    const others = kernels.takeLargest(candidates.values, candidates.indices, inSecond, {
      threshold: magnitude,
      ties: ties - taken.ties,
      count: count - taken.entries,
      into: { indices: indices + 4 * taken.entries, values: values + 4 * taken.entries },
      packTable,
    });
    return Math.max(taken.largest, others.largest);
  }

  /**
   * Writes the entries that {@link compress} wrote, without accumulating anything: for a step whose exchange failed.
   * Slower than the first time, because there is no sample.
   */
  selectAgain({ count, indices, values }: Pick<CompressInput, 'count' | 'indices' | 'values'>): Magnitude {
    const { kernels, packTable } = this;
    const { elementCount, residual } = this.state;
    if (count === 0) return 0;
    const { magnitude, ties } = this.thresholdOfAll(count, 0, elementCount);
    const taking = { threshold: magnitude, ties, count, into: { indices, values }, packTable };
    return kernels.takeLargest(residual, undefined, elementCount, taking).largest;
  }

  /**
   * Called when the receivers have the entries: subtracts what was sent from v, so that what a lossy encoding has lost
   * stays there. Where nothing was lost, v becomes +0.
   *
   * @param indices `count` uint32, each once.
   * @param values What the receivers got: as many float32. Undefined afterwards.
   * @param masks Whether u is cleared where something was sent (momentum factor masking, section 3.3 of the paper).
   * @param onlyApplied Whether it is cleared only where the update, in the place of the gradient, is not 0.
   */
  settle(indices: Pointer, values: Pointer, count: number, masks = true, onlyApplied = false): void {
    const { kernels } = this;
    const { gradient, momentum, residual } = this.state;
    if (masks && onlyApplied) return kernels.settleApplied(momentum, residual, gradient, indices, values, count);
    if (masks) return kernels.settle(momentum, residual, indices, values, count);
    kernels.scale('float32', values, -1, count);
    kernels.scatterAdd(residual, indices, values, count);
  }

  /** A band in which the k-th largest magnitude almost surely lies, and few others. */
  private expectedBand(accumulation: Accumulation, count: number): Band {
    const { elementCount } = accumulation;
    // If nothing or everything is sent, there is no threshold to find.
    if (count === 0 || count === elementCount) return { lowest: INFINITE_MAGNITUDE, highest: INFINITE_MAGNITUDE };
    if (elementCount <= SAMPLE_FROM) return { lowest: 1, highest: INFINITE_MAGNITUDE };

    const blockCount = Math.min(
      MAX_SAMPLE_BLOCKS,
      Math.max(MIN_SAMPLE_BLOCKS, Math.floor(elementCount / ELEMENTS_PER_SAMPLE_BLOCK)),
    );
    const sampleCount = SAMPLE_BLOCK * blockCount;
    // The candidates' place is free until they are gathered.
    const sample = this.candidates.values;
    this.kernels.sampleAccumulation(accumulation, blockCount, sample);
    const magnitudeOfRank = (rank: number) =>
      this.kernels.magnitudeOfRank(sample, sampleCount, rank, 0, LARGEST_MAGNITUDE, this.histogram);

    const fraction = count / elementCount;
    const expectedRank = fraction * sampleCount;
    // Six standard deviations of the rank, or one and a half if all elements of a block are equal.
    const margin = 4 + 6 * Math.sqrt(expectedRank * (1 - fraction));
    const lowRank = Math.ceil(expectedRank + margin);
    const highRank = Math.floor(expectedRank - margin);
    // Zeros are never gathered, because a tensor may have too many. `threshold` knows that the rest are zeros.
    const lowest = lowRank > sampleCount ? 1 : Math.max(1, magnitudeOfRank(lowRank));
    return { lowest, highest: highRank < 1 ? INFINITE_MAGNITUDE : Math.max(lowest, magnitudeOfRank(highRank)) };
  }

  /** The exact threshold, found among the gathered elements if they suffice. */
  private threshold(input: CompressInput, { lowest, highest }: Band, { inFirst, inSecond }: Gathered): Threshold {
    const { kernels, candidates, capacity, histogram, packTable } = this;
    const { elementCount } = this.state;
    const { count } = input;
    const gathered = inFirst + inSecond;
    // All are sent: all but the zeros lie above this magnitude, and there are enough ties for those.
    if (count === elementCount) return { magnitude: 0, ties: elementCount };
    // All elements but zeros were gathered, and are too few.
    if (gathered < count && lowest === 1) return { magnitude: 0, ties: count - gathered };

    if (count <= gathered && inSecond <= capacity) {
      // Behind the candidates there is room for those within the band, which are few.
      const within = candidates.values + 4 * inSecond;
      const room = capacity + GATHER_BLOCK - inSecond;
      const ofFirst = kernels.copyUpTo(input.values, inFirst, highest, within, room, packTable);
      const ofSecond = kernels.copyUpTo(
        candidates.values,
        inSecond,
        highest,
        within + 4 * ofFirst,
        Math.max(0, room - ofFirst),
        packTable,
      );
      const withinCount = ofFirst + ofSecond;
      const rank = count - (gathered - withinCount);
      if (withinCount <= room && rank >= 1) {
        const magnitude = kernels.magnitudeOfRank(within, withinCount, rank, lowest, highest, histogram);
        return { magnitude, ties: rank - kernels.countAbove(within, withinCount, magnitude) };
      }
    }
    return this.thresholdOfAll(count, lowest, gathered);
  }

  /** The exact threshold, found among all elements. `fromLowest` of them have a magnitude of `lowest` or more. */
  private thresholdOfAll(count: number, lowest: Magnitude, fromLowest: number): Threshold {
    const { kernels, histogram } = this;
    const { elementCount, residual } = this.state;
    const magnitudeOfRank = (rank: number, from: Magnitude, to: Magnitude) =>
      kernels.magnitudeOfRank(residual, elementCount, rank, from, to, histogram);
    const ofMagnitude = (magnitude: Magnitude) => ({
      magnitude,
      ties: count - kernels.countAbove(residual, elementCount, magnitude),
    });
    if (fromLowest < count) return ofMagnitude(magnitudeOfRank(count - fromLowest, 0, lowest - 1));
    // If one magnitude dominates, it is this one.
    const atLowest = ofMagnitude(lowest);
    if (atLowest.ties > 0) return atLowest;
    return ofMagnitude(magnitudeOfRank(count, lowest + 1, LARGEST_MAGNITUDE));
  }
}

/** Room for every element of a small tensor, and a sixteenth of those of a large one. */
function candidateCapacity(elementCount: number): number {
  return Math.min(elementCount, Math.max(65536, Math.ceil(elementCount / 16)));
}

/** Bytes of an array of candidates, with the room that the kernels need behind it. A multiple of 16. */
function candidateBytes(capacity: number): number {
  return 16 * Math.ceil((capacity + GATHER_SLACK) / 4);
}
