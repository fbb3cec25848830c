/** What a rate must be, for error messages. */
export const A_RATE = 'a rate such as 10mbit, 1gbit or 2.5gbit (100kbit to 100gbit)';

const RATE_UNITS: Readonly<Record<string, number>> = { kbit: 1e3, mbit: 1e6, gbit: 1e9 };

/** The bits a second of a rate such as `100mbit` or `2.5gbit`, 100kbit to 100gbit. Undefined if it is not one. */
export function bitsPerSecondOf(rate: string): number | undefined {
  const [, number, unit] = /^(\d+(?:\.\d+)?)([kmg]bit)$/.exec(rate) ?? [];
  const bits = unit === undefined ? NaN : Math.round(Number(number) * RATE_UNITS[unit]!);
  return bits >= 1e5 && bits <= 1e11 ? bits : undefined;
}
