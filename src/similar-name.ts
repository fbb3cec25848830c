/**
 * The name that was probably meant: the one with the fewest edits, if they are few for its length. Upper and lower case
 * are the same. Of names with equally few edits, one that begins with the same letter is preferred, then one of the
 * same length, then the first in the list.
 */
export function similarName(typed: string, names: readonly string[]): string | undefined {
  const lower = typed.toLowerCase();
  const ranked = names
    .map(name => ({
      name,
      edits: editDistance(lower, name.toLowerCase()),
      otherBeginning: Number(name[0]?.toLowerCase() !== lower[0]),
      otherLength: Math.abs(name.length - typed.length),
    }))
    .filter(({ name, edits }) => edits <= mostEdits(name))
    .sort((a, b) => a.edits - b.edits || a.otherBeginning - b.otherBeginning || a.otherLength - b.otherLength);
  return ranked[0]?.name;
}

/** One for each three letters, and one for a short name. A single letter has no similar names. */
function mostEdits({ length }: string): number {
  return Math.min(length - 1, Math.max(1, Math.floor(length / 3)));
}

/**
 * Damerau's distance (optimal string alignment): how many letters must be inserted, dropped or replaced, or swapped
 * with their neighbour.
 */
function editDistance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, j) => j);
  for (let i = 1; i <= from.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const replaced = last[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const swapped = isSwap ? beforeLast[j - 2]! + 1 : Infinity;
      row.push(Math.min(replaced, swapped, last[j]! + 1, row[j - 1]! + 1));
    }
    [beforeLast, last] = [last, row];
  }
  return last[to.length]!;
}
