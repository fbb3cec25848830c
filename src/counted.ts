/** `1 rank`, `2 ranks`. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** `rank 3`, `ranks 3, 5`. */
export function listed(what: string, numbers: readonly number[]): string {
  return `${what}${numbers.length === 1 ? '' : 's'} ${numbers.join(', ')}`;
}
