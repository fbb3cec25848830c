import type { CodecKernels } from './codec-kernels';
import type { Magnitude } from './magnitude';
import type { Pointer } from './pointer';

export { INFINITE_MAGNITUDE } from './magnitude';
export type { Magnitude, Pointer };

/** The types of the elements of an array. */
export type ElementType = 'float32' | 'float64' | 'int32' | 'uint8';

/** How two elements become one. */
export type ReduceOperation = 'sum' | 'min' | 'max';

/** Bytes that {@link Kernels.magnitudeOfRank} counts in. */
export const HISTOGRAM_BYTES = 2048 * 4;

/** Bytes of scratch for the kernels that pack: those that take a `packTable`. */
export const PACK_TABLE_BYTES = 16 * 16;

/** {@link Kernels.accumulate} gathers block by block, of so many elements. */
export const GATHER_BLOCK = 2048;

/** Two arrays side by side: the uint32 indices of elements of a tensor, and their float32 values. */
export interface IndexedValues {
  readonly indices: Pointer;
  readonly values: Pointer;
}

/**
 * One step of DGC's momentum correction (Lin et al. 2018, section 3.2) on one tensor of float32, element by element:
 * with g′ = gradient · gradientScale, momentum u, residual v and factor m,
 *
 * - plain: u ← m·u + g′; v ← v + u
 * - Nesterov: u ← m·(u + g′); v ← (v + u) + g′
 *
 * each operation rounded to float32.
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
   * A block of {@link GATHER_BLOCK} elements is gathered here while there are at most this many entries before it, so
   * there must be room for `capacity` + {@link GATHER_BLOCK} + 4 of them. None are if it is negative. What lies behind
   * the last entry may be overwritten.
   */
  readonly capacity: number;
}

/** Which elements {@link Kernels.accumulate} gathers, and where. */
export interface Gathering {
  /** Elements from this magnitude on, at least 1, are gathered. */
  readonly lowest: Magnitude;
  /** Filled before `second` is. */
  readonly first: GatheringPlace;
  /** Its capacity is not negative. */
  readonly second: GatheringPlace;
  readonly packTable: Pointer;
}

/** What {@link Kernels.accumulate} found. */
export interface Gathered {
  /** Entries in the first place. */
  readonly inFirst: number;
  /**
   * All others. They are in the second place if these are at most its capacity; if they are more, it may hold anything.
   */
  readonly inSecond: number;
}

/** Which elements {@link Kernels.takeLargest} takes, and where it writes them. */
export interface Taking {
  /** Every element above it is taken. */
  readonly threshold: Magnitude;
  /** Of those exactly at the threshold, this many are taken, the first ones. */
  readonly ties: number;
  /** Never more entries than this are written. */
  readonly count: number;
  /** May be the list itself that is taken from. */
  readonly into: IndexedValues;
  readonly packTable: Pointer;
}

/** What {@link Kernels.takeLargest} took. */
export interface Taken {
  readonly entries: number;
  /** How many of them are exactly at the threshold. */
  readonly ties: number;
  /** The largest magnitude among them, 0 where there are none. */
  readonly largest: Magnitude;
}

/**
 * The tight loops over tensors in one shared `WebAssembly.Memory`. `instantiateKernels` makes them, in WebAssembly
 * SIMD; the tests hold their results against those of a twin in plain TypeScript, bit for bit unless stated.
 *
 * For all of them: tensors start at multiples of 16 bytes, arrays of indices and values at multiples of 4. Element
 * counts may be anything, 0 included, as long as the array ends within the memory. Nothing is checked and nothing
 * allocated; the arrays belong to the caller, are written only where stated, and may not overlap unless stated. They
 * may be used by two threads at once where neither writes what the other uses.
 */
export interface Kernels extends CodecKernels {
  /**
   * `into[i] = into[i] op from[i]`. Integer sums wrap around. The minimum and maximum of floats are NaN where either
   * is (which of the NaNs is not stated), and −0 is less than +0.
   */
  reduce(operation: ReduceOperation, type: ElementType, into: Pointer, from: Pointer, elementCount: number): void;

  /** `data[i] = +0` of float32. */
  clear(data: Pointer, elementCount: number): void;

  /** Copies elements of 4 bytes. */
  copy(from: Pointer, into: Pointer, elementCount: number): void;

  /** `data[i] *= factor`, the factor rounded to the type. Returns whether all products are finite. */
  scale(type: 'float32' | 'float64', data: Pointer, factor: number, elementCount: number): boolean;

  /**
   * Σ data[i]² of float32, summed in float64 (the order, and so the last bits, depend on the implementation). It cannot
   * overflow: the result is non-finite exactly if an element is NaN or infinite.
   */
  sumOfSquares(data: Pointer, elementCount: number): number;

  /** The index of the first float32 that is NaN or infinite, or −1. */
  firstNonFinite(data: Pointer, elementCount: number): number;

  /**
   * The momentum optimizer of TensorFlow, on an averaged dense gradient of float32: u ← m·u + g, then g ← u; or with
   * Nesterov u ← m·(u + g), then g ← u + g, so that u means what it does in {@link Accumulation}, and a dense warm-up
   * can hand it on. Each operation is rounded to float32, m too.
   */
  applyMomentum(gradient: Pointer, momentum: Pointer, elementCount: number, factor: number, nesterov: boolean): void;

  /** `into[indices[j]] += values[j]` for j from 0 on; an index may occur twice. Indices are the caller's to check. */
  scatterAdd(into: Pointer, indices: Pointer, values: Pointer, count: number): void;

  /**
   * {@link scatterAdd} of the entries numbered `from` to `until` − 1 of a list in ascending order of the indices, up to
   * the first index that is not below `limit`. Returns the number of the entry after the last one added.
   */
  scatterAddBelow(into: Pointer, indices: Pointer, values: Pointer, from: number, until: number, limit: number): number;

  /**
   * `momentum[i] = 0; residual[i] -= values[j]` of float32, with i = `indices[j]`, for each j. No index occurs twice.
   * Indices are the caller's to check.
   */
  settle(momentum: Pointer, residual: Pointer, indices: Pointer, values: Pointer, count: number): void;

  /**
   * One {@link Accumulation}, gathering in the same pass over memory the elements whose new residual is large, in
   * ascending order of their indices.
   */
  accumulate(accumulation: Accumulation, gathering: Gathering): Gathered;

  /**
   * What the residual would be after an {@link Accumulation} at `blockCount` places (1 to elementCount / 16) of sixteen
   * elements each, spread evenly but not regularly over the tensor: writes 16 · blockCount float32 to `into`, and
   * leaves momentum and residual alone. The same arguments give the same places.
   */
  sampleAccumulation(accumulation: Accumulation, blockCount: number, into: Pointer): void;

  /**
   * The magnitude at a rank among those float32 values whose magnitudes are `lowest` to `highest` (rank 1 is the
   * largest of them; equal ones take as many ranks), exactly, by a radix histogram: at most three passes whatever the
   * distribution. There must be as many values. `histogram` is scratch of {@link HISTOGRAM_BYTES}.
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
   * Copies the float32 values that are not larger than the magnitude, in no stated order, and returns how many they
   * are. Only `capacity` of them are stored; four values more may be overwritten with anything.
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
   * An element's index is its position in `values`, or stands in `indices` where the elements are a list already.
   */
  takeLargest(values: Pointer, indices: Pointer | undefined, elementCount: number, taking: Taking): Taken;
}
