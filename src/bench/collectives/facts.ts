import { sizeText } from './byte-sizes';
import type { CollectiveName } from './collective-benchmark';
import { MEDIA } from './media';
import type { CollectiveRow } from './row';

/** What busbw means. */
export const BUSBW =
  'busbw is the rate at which each link between two ranks carries data if no rank sends more than necessary. Compare it with the speed of your network.';

/** What busbw means for a collective. A sparse one sends less than the size of its array. */
export function busbwWords(collective: CollectiveName): string {
  if (collective !== 'sparse-all-reduce') return BUSBW;
  return 'busbw is the rate at which each link would carry the uncompressed gradient in the same time. It may be more than the speed of your network.';
}

const ALGORITHMS: Readonly<Record<NonNullable<CollectiveRow['algorithm']>, string>> = {
  ring: 'by the ring',
  gather: 'gathered whole by every rank',
};

/** What is the same for all rows: names and values, in words. */
export function factsOf(rows: readonly CollectiveRow[]): [name: string, words: string][] {
  const [first] = rows;
  if (first === undefined) return [];
  const media = [...new Set(rows.flatMap(({ carriedBy }) => carriedBy))].map(medium => MEDIA[medium]);
  const algorithms = algorithmsOf(rows);
  const transport = `${media.join('; ')} (--transport ${first.transport})`;
  return [
    ['transport', media.length === 0 ? 'none: a single rank sends nothing' : transport],
    ...(algorithms === '' ? [] : [['algorithm', algorithms] as [string, string]]),
  ];
}

/**
 * How each size is all-reduced: `gathered whole by every rank up to 4 KiB, by the ring from 8 KiB`. Empty if no row
 * says it.
 */
function algorithmsOf(rows: readonly CollectiveRow[]): string {
  const sorted = rows.filter(({ algorithm }) => algorithm !== undefined).sort((a, b) => a.bytes - b.bytes);
  const isNew = ({ algorithm }: CollectiveRow, i: number): boolean => algorithm !== sorted[i - 1]?.algorithm;
  const starts = sorted.flatMap((row, i) => (isNew(row, i) ? [i] : []));
  return starts
    .map((start, i) => {
      const end = starts[i + 1];
      const from = start === 0 ? '' : ` from ${sizeText(sorted[start]!.bytes)}`;
      const to = end === undefined ? '' : ` ${start === 0 ? 'up ' : ''}to ${sizeText(sorted[end - 1]!.bytes)}`;
      return `${ALGORITHMS[sorted[start]!.algorithm!]}${from}${to}`;
    })
    .join(', ');
}
