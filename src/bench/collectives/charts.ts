import { COLORS } from '../../charts/html-page';
import type { Chart, ChartSeries } from '../chart';
import { busbwWords } from './facts';
import type { CollectiveRow } from './row';

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
  const time = { title: 'Time over size', axis: 'time', unit: 'µs', over: 'size', xs: sizes } as const;
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
      over: 'size',
      xs: sizes,
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
