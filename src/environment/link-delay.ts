/** What a delay must be, for error messages. */
const A_DELAY = 'a time such as 50ms, 0.5ms or 1s (0.1ms to 1s)';

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000 };

/** What a delay must be, if the text is not one. */
export function linkDelayFault(text: string): string | undefined {
  return msOf(text) === undefined ? A_DELAY : undefined;
}

/** The ms of a delay such as `50ms`, 0.1ms to 1s. Undefined if it is not one. */
export function msOf(delay: string): number | undefined {
  const [, number, unit] = /^(\d+(?:\.\d+)?)(ms|s)$/.exec(delay) ?? [];
  const ms = unit === undefined ? NaN : Number(number) * UNITS[unit]!;
  return ms >= 0.1 && ms <= 1000 ? ms : undefined;
}
