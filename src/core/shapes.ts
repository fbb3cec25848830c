/** Whether two shapes are equal. (Shapes of one size are not: a transposed matrix has the size of the matrix.) */
export function isSameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((length, axis) => length === b[axis]);
}

/** How many elements a tensor of that shape has. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}

/** A shape for messages: `[2, 3]`. */
export function inBrackets(shape: readonly number[]): string {
  return `[${shape.join(', ')}]`;
}
