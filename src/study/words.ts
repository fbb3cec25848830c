import type { Interval, Margin } from './results';

/** What the figures of a workload are called, and how they are written. */
export interface Words {
  /** The heading of a column of scores. */
  readonly score: string;
  /** The heading of a column of differences. */
  readonly difference: string;
  /** The margin: `at most 0.3 points below that of dense`. */
  readonly margin: string;
  scoreText(score: number): string;
  /** Without the unit, with a sign. */
  differenceText(difference: number): string;
  /** With the unit. */
  differenceWords(difference: Interval): string;
}

const capital = (text: string): string => text[0]!.toUpperCase() + text.slice(1);

/** The words for a workload with this margin. */
export function wordsOf({ score, better, kind, worse }: Margin, baseline: string): Words {
  const isShare = score !== 'perplexity';
  const unit = kind === 'relative' ? '%' : isShare ? 'points' : '';
  const factor = kind === 'relative' || isShare ? 100 : 1;
  const differenceText = (difference: number): string => signed(difference * factor, 2);
  return {
    score: isShare ? `${capital(score)}, %` : capital(score),
    difference: unit === '' ? 'Difference' : `Difference, ${unit}`,
    margin: `at most ${`${Number((worse * factor).toPrecision(6))} ${unit}`.trim()} ${better === 'higher' ? 'below' : 'above'} that of ${baseline}`,
    scoreText: value => (isShare ? (100 * value).toFixed(2) : value.toPrecision(4)).replace('-', '−'),
    differenceText,
    differenceWords: difference => `${intervalText(difference, differenceText)} ${unit}`.trim(),
  };
}

/** `1.2 (0.9 to 1.5)`. */
export function intervalText({ mean, low, high }: Interval, text: (value: number) => string): string {
  return low === null || high === null ? text(mean) : `${text(mean)} (${text(low)} to ${text(high)})`;
}

/** With a sign, also if it is zero. */
export function signed(value: number, decimals: number): string {
  return `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(decimals)}`;
}

/** A number of bytes, in decimal units. */
export function bytesText(bytes: number): string {
  const [unit, size] = bytes < 1e6 ? ['kB', 1e3] : bytes < 1e9 ? ['MB', 1e6] : (['GB', 1e9] as const);
  return `${Number((bytes / Number(size)).toPrecision(3)).toLocaleString('en-US')} ${unit}`;
}

/** A compression ratio: `462×`. */
export function ratioText(ratio: number | null): string {
  if (ratio === null) return '–';
  return `${ratio < 10 ? ratio.toFixed(2) : Math.round(ratio).toLocaleString('en-US')}×`;
}
