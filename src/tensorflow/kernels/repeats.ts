/**
 * Whether a tensor is broadcast to another shape if its values are merely repeated: the shape ends as this one does.
 * Some kernels do no more than that.
 */
export function repeats(shape: readonly number[], to: readonly number[]): boolean {
  const begin = shape.findIndex(size => size !== 1);
  if (begin < 0) return true;
  const own = shape.slice(begin);
  return own.every((size, i) => size === to[to.length - own.length + i]);
}
