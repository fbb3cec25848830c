/** Entries at ascending positions, each once. */
export interface SparseList {
  readonly positions: Uint32Array;
  readonly values: Float32Array;
}

/** A range of positions that belongs to one tensor, of whose entries at most `budget` are kept. */
export interface Piece {
  /** The number of its tensor in the arena. */
  readonly tensor: number;
  /** The first position, and the element of the tensor there. */
  readonly position: number;
  readonly start: number;
  readonly length: number;
  readonly budget: number;
}

/** The largest float32. A sum that overflows is cut to it, so that it can be encoded. */
const LARGEST_SUM = 2 ** 128 - 2 ** 104;

/** The first entry at a position from which all others are not below it. */
export function lowerBound(positions: Uint32Array, position: number): number {
  let [low, high] = [0, positions.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (positions[middle]! < position) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The entries at positions from `from` up to, but not including, `until`: views. */
export function between({ positions, values }: SparseList, from: number, until: number): SparseList {
  const [first, end] = [lowerBound(positions, from), lowerBound(positions, until)];
  return { positions: positions.subarray(first, end), values: values.subarray(first, end) };
}

/**
 * The sum of two lists.
 *
 * @param onOverflow Called with each position whose sum has overflowed, and was cut.
 */
export function sumOfLists(a: SparseList, b: SparseList, onOverflow: (position: number) => void): SparseList {
  const sum = emptyList(a.positions.length + b.positions.length);
  let [i, j, count] = [0, 0, 0];
  while (i < a.positions.length || j < b.positions.length) {
    const atA = i < a.positions.length ? a.positions[i]! : Infinity;
    const atB = j < b.positions.length ? b.positions[j]! : Infinity;
    const position = Math.min(atA, atB);
    sum.positions[count] = position;
    sum.values[count] = (atA <= atB ? a.values[i++]! : 0) + (atB <= atA ? b.values[j++]! : 0);
    if (!Number.isFinite(sum.values[count])) {
      sum.values[count] = Math.sign(sum.values[count]!) * LARGEST_SUM;
      onOverflow(position);
    }
    count++;
  }
  return startOf(sum, count);
}

/** Divides a list: of each piece the largest magnitudes are kept, up to its budget; of equal ones the first. */
export function keepLargest(list: SparseList, pieces: readonly Piece[]): { kept: SparseList; dropped: SparseList } {
  const { positions, values } = list;
  const length = positions.length;
  // As whole numbers, magnitudes have the same order.
  const magnitudes = new Uint32Array(values.slice().buffer);
  for (let i = 0; i < length; i++) magnitudes[i]! &= 0x7fffffff;
  const [kept, dropped] = [emptyList(length), emptyList(length)];
  let [keptCount, droppedCount] = [0, 0];
  for (const piece of pieces) {
    const [first, end] = [lowerBound(positions, piece.position), lowerBound(positions, piece.position + piece.length)];
    const { threshold, ties } = thresholdOf(magnitudes.subarray(first, end), piece.budget);
    let tiesLeft = ties;
    for (let i = first; i < end; i++) {
      const magnitude = magnitudes[i]!;
      if (magnitude > threshold || (magnitude === threshold && tiesLeft-- > 0)) {
        kept.positions[keptCount] = positions[i]!;
        kept.values[keptCount++] = values[i]!;
      } else {
        dropped.positions[droppedCount] = positions[i]!;
        dropped.values[droppedCount++] = values[i]!;
      }
    }
  }
  return { kept: startOf(kept, keptCount), dropped: startOf(dropped, droppedCount) };
}

/** A list to be filled. */
export function emptyList(length: number): SparseList {
  return { positions: new Uint32Array(length), values: new Float32Array(length) };
}

function startOf({ positions, values }: SparseList, count: number): SparseList {
  return { positions: positions.subarray(0, count), values: values.subarray(0, count) };
}

/** What must be exceeded to be among the `budget` largest numbers, and how many that are equal to it are among them. */
function thresholdOf(numbers: Uint32Array, budget: number): { threshold: number; ties: number } {
  if (budget >= numbers.length) return { threshold: 0, ties: Infinity };
  if (budget === 0) return { threshold: Infinity, ties: 0 };
  const threshold = smallestOf(numbers.slice(), numbers.length - budget);
  let above = 0;
  for (const number of numbers) if (number > threshold) above++;
  return { threshold, ties: budget - above };
}

/** The number with that many before it in ascending order (quickselect). Changes the order. */
function smallestOf(numbers: Uint32Array, before: number): number {
  let [low, high] = [0, numbers.length - 1];
  while (low < high) {
    const pivot = numbers[(low + high) >>> 1]!;
    let [i, j] = [low, high];
    while (i <= j) {
      while (numbers[i]! < pivot) i++;
      while (numbers[j]! > pivot) j--;
      if (i > j) break;
      const swapped = numbers[i]!;
      numbers[i++] = numbers[j]!;
      numbers[j--] = swapped;
    }
    if (before <= j) high = j;
    else if (before >= i) low = i;
    else break;
  }
  return numbers[before]!;
}
