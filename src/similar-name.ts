/** The name that was probably meant: that with the fewest edits, if they are few for its length. */
export function similarName(typed: string, names: readonly string[]): string | undefined {
  const ranked = names
    .map(name => ({ name, edits: editDistance(typed, name) }))
    .filter(({ name, edits }) => edits <= Math.max(1, Math.floor(name.length / 3)))
    .sort((a, b) => a.edits - b.edits);
  return ranked[0]?.name;
}

/** Levenshtein's distance: how many letters must be inserted, dropped or replaced. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, j) => j);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const replaced = row[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[to.length]!;
}
