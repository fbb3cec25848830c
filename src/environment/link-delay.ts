/** What a delay must be, for error messages. */
export const A_DELAY = 'a time such as 50ms or 0.5ms (0.1ms to 200ms)';

/**
 * The ms of a delay such as `50ms`, 0.1ms to 200ms. Undefined if it is not one. With longer delays ranks could not
 * agree on a failure or open their lanes: the times for that are fixed.
 */
export function msOf(delay: string): number | undefined {
  const ms = Number(/^(\d+(?:\.\d+)?)ms$/.exec(delay)?.[1]);
  return ms >= 0.1 && ms <= 200 ? ms : undefined;
}
