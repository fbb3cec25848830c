import type { CodecKernels } from './codec-kernels';
import type { Magnitude, Pointer } from './pointer';
import type { MatrixKernels } from './matrix-kernels';

export type { Magnitude, Pointer };

/** The types of floats. Those of 16 bits are held as their bits. */
export type FloatType = 'float32' | 'float64' | 'float16' | 'bfloat16';

/** The types of elements that can be reduced. */
export type ReducedType = FloatType | 'int32' | 'int64' | 'uint64' | 'uint8';

/** How two elements become one. */
export type ReduceOperation = 'sum' | 'product' | 'min' | 'max';

/** Bytes of scratch for {@link Kernels.magnitudeOfRank}. */
export const HISTOGRAM_BYTES = 2048 * 4;

/** Bytes of scratch for kernels with a parameter `packTable`. */
export const PACK_TABLE_BYTES = 16 * 16;

/** {@link Kernels.accumulate} gathers in blocks of this many elements. */
export const GATHER_BLOCK = 2048;

/** Two arrays: the uint32 indices of elements of a tensor, and their float32 values. */
export interface IndexedValues {
  readonly indices: Pointer;
  readonly values: Pointer;
}

/** Entries of a tensor in ascending order of their indices, each once. */
export interface EntryList extends IndexedValues {
  readonly count: number;
}

/**
 * One step of DGC's momentum correction (Lin et al. 2018, section 3.2) on one tensor of float32, element by element:
 * with g′ = gradient · gradientScale, momentum u, residual v and factor m,
 *
 * - plain: u ← m·u + g′; v ← v + u
 * - Nesterov: u ← m·(u + g′); v ← (v + u) + g′
 *
 * The result of each operation is rounded to float32.
 */
export interface Accumulation {
  /** Read only. */
  readonly gradient: Pointer;
  /** u, updated in place. */
  readonly momentum: Pointer;
  /** v, updated in place. */
  readonly residual: Pointer;
  readonly elementCount: number;
  /** Rounded to float32. */
  readonly gradientScale: number;
  /** m, rounded to float32. */
  readonly momentumFactor: number;
  readonly nesterov: boolean;
}

/** A place where {@link Kernels.accumulate} gathers entries. */
export interface GatheringPlace extends IndexedValues {
  /**
   * A block of {@link GATHER_BLOCK} elements is gathered here as long as there are at most this many entries before it.
   * So there must be room for `capacity` + {@link GATHER_BLOCK} + 4 entries. If it is negative, nothing is gathered
   * here. Memory behind the last entry may be overwritten.
   */
  readonly capacity: number;
}

/** Which elements {@link Kernels.accumulate} gathers, and where. */
export interface Gathering {
  /** Elements of at least this magnitude are gathered. It is at least 1. */
  readonly lowest: Magnitude;
  /** It is filled before `second`. */
  readonly first: GatheringPlace;
  /** Its capacity must not be negative. */
  readonly second: GatheringPlace;
  readonly packTable: Pointer;
}

/** The result of {@link Kernels.accumulate}. */
export interface Gathered {
  /** Entries in the first place. */
  readonly inFirst: number;
  /**
   * All other entries. They are in the second place if they are not more than its capacity. If they are more, the
   * content of the second place is undefined.
   */
  readonly inSecond: number;
}

/** Which elements {@link Kernels.takeLargest} takes, and where it writes them. */
export interface Taking {
  /** All elements above it are taken. */
  readonly threshold: Magnitude;
  /** How many elements exactly at the threshold are taken: the first ones. */
  readonly ties: number;
  /** At most this many entries are written. */
  readonly count: number;
  /** It may be the list from which elements are taken. */
  readonly into: IndexedValues;
  readonly packTable: Pointer;
}

/** The result of {@link Kernels.takeLargest}. */
export interface Taken {
  readonly entries: number;
  /** How many of the entries are exactly at the threshold. */
  readonly ties: number;
  /** The largest magnitude among the entries; 0 if there are none. */
  readonly largest: Magnitude;
}

/**
 * The tight loops over tensors in one shared `WebAssembly.Memory`. `instantiateKernels` makes them, in WebAssembly
 * SIMD. The tests compare their results, bit for bit unless stated, with those of a twin in plain TypeScript.
 *
 * For all of them: tensors start at multiples of 16 bytes, arrays of indices and values at multiples of 4. Element
 * counts may be any number, also 0, as long as the array ends within the memory. Nothing is checked, and nothing is
 * allocated. The arrays belong to the caller, are only written where stated, and must not overlap unless stated. Two
 * threads may use them at once if neither writes what the other uses.
 */
export interface Kernels extends CodecKernels, MatrixKernels {
  /**
   * `into[i] = into[i] op from[i]`. Sums and products of integers wrap around. The minimum and maximum of floats are
   * NaN if either is NaN (any of the NaNs), and −0 is less than +0. Floats of 16 bits are computed in float32, and the
   * result is rounded to the nearest value, halves to even; their NaN is 0x7e00 or 0x7fc0.
   */
  reduce(operation: ReduceOperation, type: ReducedType, into: Pointer, from: Pointer, elementCount: number): void;

  /** `data[i] = +0` of float32. */
  clear(data: Pointer, elementCount: number): void;

  /** Copies elements of 4 bytes. */
  copy(from: Pointer, into: Pointer, elementCount: number): void;

  /**
   * `data[i] *= factor`, with the factor rounded to the type, or to float32 for floats of 16 bits. Returns whether all
   * products are finite.
   */
  scale(type: FloatType, data: Pointer, factor: number, elementCount: number): boolean;

  /**
   * Σ data[i]² of float32, summed in float64. The order, and so the last bits, depend on the implementation. The sum
   * cannot overflow: it is not finite exactly if an element is NaN or infinite.
   */
  sumOfSquares(data: Pointer, elementCount: number): number;

  /** Whether no float32 is NaN or infinite. */
  allFinite(data: Pointer, elementCount: number): boolean;

  /**
   * The momentum optimizer of TensorFlow, on an averaged dense gradient of float32: u ← m·u + g, then g ← u. With
   * Nesterov: u ← m·(u + g), then g ← u + g. So u means the same as in {@link Accumulation}, and stays valid after a
   * dense warm-up. m and the result of each operation are rounded to float32.
   */
  applyMomentum(gradient: Pointer, momentum: Pointer, elementCount: number, factor: number, nesterov: boolean): void;

  /** `into[indices[j]] += values[j]` for all j. An index may occur twice. The caller must check the indices. */
  scatterAdd(into: Pointer, indices: Pointer, values: Pointer, count: number): void;

  /**
   * {@link scatterAdd} of the entries `from` to `until` − 1 of a list with ascending indices, up to the first index
   * that is not below `limit`. Returns the number of the entry after the last one that was added.
   */
  scatterAddBelow(into: Pointer, indices: Pointer, values: Pointer, from: number, until: number, limit: number): number;

  /**
   * The sum of two lists: writes each index that either has, in ascending order, and the sum of its values. Returns how
   * many entries that makes.
   *
   * @param bStart Is subtracted from the indices of `b`, none of which is lower.
   * @param into Room for as many entries as both lists have.
   */
  addEntries(a: EntryList, b: EntryList, bStart: number, into: IndexedValues): number;

  /**
   * `residual[i] -= values[j]` of float32, and `momentum[i] = 0` if values[j] is not 0, with i = `indices[j]`, for each
   * j. No index occurs twice. The caller must check the indices.
   */
  settle(momentum: Pointer, residual: Pointer, indices: Pointer, values: Pointer, count: number): void;

  /** {@link settle}, but `momentum[i] = 0` only where `update[i]` is not 0. */
  settleApplied(
    momentum: Pointer,
    residual: Pointer,
    update: Pointer,
    indices: Pointer,
    values: Pointer,
    count: number,
  ): void;

  /**
   * One {@link Accumulation}. In the same pass over memory it gathers the elements whose new residual is large, in
   * ascending order of their indices.
   */
  accumulate(accumulation: Accumulation, gathering: Gathering): Gathered;

  /**
   * A sample of the residual after an {@link Accumulation}: of `blockCount` places (1 to elementCount / 16) with
   * sixteen elements each, distributed evenly but not regularly over the tensor. Writes 16 · blockCount float32 to
   * `into`, and does not change momentum and residual. The same arguments give the same places.
   */
  sampleAccumulation(accumulation: Accumulation, blockCount: number, into: Pointer): void;

  /**
   * The exact magnitude at a rank among the float32 values with magnitudes from `lowest` to `highest`. Rank 1 is the
   * largest; equal values have different ranks. It uses a radix histogram, with at most three passes for every
   * distribution. There must be at least `rank` such values. `histogram` is scratch of {@link HISTOGRAM_BYTES}.
   */
  magnitudeOfRank(
    values: Pointer,
    elementCount: number,
    rank: number,
    lowest: Magnitude,
    highest: Magnitude,
    histogram: Pointer,
  ): Magnitude;

  /** How many float32 values are larger than the magnitude. */
  countAbove(values: Pointer, elementCount: number, magnitude: Magnitude): number;

  /**
   * Copies the float32 values that are not larger than the magnitude, in any order, and returns how many there are. At
   * most `capacity` of them are stored. Four more values may be overwritten.
   */
  copyUpTo(
    values: Pointer,
    elementCount: number,
    highest: Magnitude,
    into: Pointer,
    capacity: number,
    packTable: Pointer,
  ): number;

  /**
   * Writes the elements that a {@link Taking} asks for, with their indices, in their order.
   *
   * @param indices The indices of the elements, if they are a list. If undefined, the index is the position in
   *   `values`.
   */
  takeLargest(values: Pointer, indices: Pointer | undefined, elementCount: number, taking: Taking): Taken;
}
