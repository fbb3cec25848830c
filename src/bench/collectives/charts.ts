import { COLORS } from '../../charts/html-page';
import { busbwWords } from './facts';
import type { CollectiveRow } from './row';

/** A curve. */
export interface ChartSeries {
  readonly label: string;
  /** The number of its colour; the first is 1. */
  readonly color: number;
  /** By size; null if there is no value. */
  readonly values: readonly (number | null)[];
  /** Whether it is the edge of a band, which is drawn as a thin line. */
  readonly thin: boolean;
}

/** A chart over the size, with two logarithmic axes, as plain data for the page. */
export interface Chart {
  readonly title: string;
  /** A sentence below the title. */
  readonly note?: string;
  readonly axis: string;
  readonly unit: 'µs' | 'GB/s';
  /** Bytes, ascending. */
  readonly sizes: readonly number[];
  readonly series: readonly ChartSeries[];
  /** The numbers of two series, the upper one first. The area between them is filled. */
  readonly band?: readonly [number, number];
}

/** Charts of time and busbw over the size, with a curve for each density, format and way. None without sizes. */
export function chartsOf(rows: readonly CollectiveRow[]): Chart[] {
  const sized = rows.filter(({ bytes }) => bytes > 0);
  if (sized.length === 0) return [];
  const sizes = [...new Set(sized.map(({ bytes }) => bytes))].sort((a, b) => a - b);
  const labels = [...new Set(sized.map(labelOf))];
  const curve = (label: string, value: (row: CollectiveRow) => number): (number | null)[] =>
    sizes.map(size => {
      const row = sized.find(candidate => candidate.bytes === size && labelOf(candidate) === label);
      const found = row && value(row);
      return found !== undefined && found > 0 ? found : null; // a logarithmic axis has no zero
    });
  const one = (label: string, i: number, value: (row: CollectiveRow) => number): ChartSeries => {
    return { label, color: 1 + (i % COLORS), values: curve(label, value), thin: false };
  };
  const [only] = labels;
  const edge = (name: string, value: (row: CollectiveRow) => number): ChartSeries => {
    return { label: name, color: 1, values: curve(only!, value), thin: true };
  };
  const time = { title: 'Time over size', axis: 'time', unit: 'µs', sizes } as const;
  return [
    labels.length === 1
      ? {
          ...time,
          series: [
            { ...one(only!, 0, ({ timeUs }) => timeUs.p50), label: 'p50' },
            edge('p99', ({ timeUs }) => timeUs.p99),
            edge('min', ({ timeUs }) => timeUs.min),
          ],
          band: [1, 2],
        }
      : { ...time, series: labels.map((label, i) => one(label, i, ({ timeUs }) => timeUs.p50)) },
    {
      title: 'Bus bandwidth over size',
      note: busbwWords(sized[0]!.collective),
      axis: 'busbw',
      unit: 'GB/s',
      sizes,
      series: labels.map((label, i) => one(label, i, ({ busbwGBps }) => busbwGBps)),
    },
  ];
}

/** The options that a row was measured with. */
function labelOf({ type, op, root, density, values, way }: CollectiveRow): string {
  const parts =
    density === undefined
      ? [type, op, root === undefined ? undefined : `root ${root}`]
      : [`density ${density}`, values, way];
  return parts.filter(part => part !== undefined).join(', ');
}
