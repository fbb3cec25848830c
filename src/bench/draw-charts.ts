import type uPlot from 'uplot';
import type { ChartTools } from '../charts/chart-tools';
import type { Chart, ChartSeries } from './chart';

/**
 * Draws the charts of a page in a browser. The text of this function is part of the page, so the function must not use
 * anything from outside itself.
 */
export function drawCharts({ color, number, decades, axis, draw }: ChartTools, charts: readonly Chart[]): void {
  const place = document.getElementById('charts')!;
  const sizeText = (bytes: number): string => {
    const unit = Math.min(3, Math.floor(Math.log2(bytes) / 10));
    return `${Number((bytes / 1024 ** unit).toPrecision(3))} ${['B', 'KiB', 'MiB', 'GiB'][unit]}`;
  };
  const timeText = (us: number): string =>
    us < 1e3 ? `${number(us)} µs` : us < 1e6 ? `${number(us / 1e3)} ms` : `${number(us / 1e6)} s`;
  const rateText = (gb: number): string =>
    gb >= 1 ? `${number(gb)} GB/s` : gb >= 1e-3 ? `${number(gb * 1e3)} MB/s` : `${number(gb * 1e6)} kB/s`;
  /** Powers of ten, and values between them if they are few. */
  const steps = (least: number, most: number): number[] => {
    const within = most / least < 500 ? [1, 2, 5] : [1];
    const from = Math.round(Math.log10(least));
    const powers = Array.from({ length: Math.round(Math.log10(most)) - from + 1 }, (_, i) => 10 ** (from + i));
    return powers.flatMap(power => within.map(step => step * power)).filter(value => value <= most * 1.001);
  };
  /** As many of the measured sizes as fit. */
  const ticks = (sizes: readonly number[], width: number): number[] => {
    const every = Math.max(1, Math.ceil((sizes.length * 75) / width));
    return sizes.filter((_, i) => i % every === 0);
  };

  const textOf = { µs: timeText, 'GB/s': rateText, '×': (value: number): string => `${number(value)}×` };
  const colorOf = ({ color: of }: ChartSeries): (() => string) => color(of === 0 ? '--faint' : `--series-${of}`);
  const dashOf = ({ dash, thin }: ChartSeries): readonly number[] | undefined => dash ?? (thin ? [4, 4] : undefined);
  const pointsOf = (series: ChartSeries): uPlot.Series.Points => {
    const { points = series.thin ? [] : undefined } = series;
    if (points === 'only') return { show: true, size: 12, width: 2.5, fill: color('--panel'), stroke: colorOf(series) };
    const filter = points && { filter: (): number[] => [...points] };
    return { show: points?.length !== 0, size: 7, fill: colorOf(series), ...filter };
  };

  for (const chart of charts) {
    const text = textOf[chart.unit];
    const isLog = chart.over === 'size';
    const xText = isLog ? sizeText : String;
    const figure = document.createElement('figure');
    const heading = figure.appendChild(document.createElement('h2'));
    heading.textContent = chart.title;
    if (chart.note !== undefined) {
      const note = figure.appendChild(document.createElement('p'));
      note.className = 'note';
      note.textContent = chart.note;
    }
    place.appendChild(figure);
    draw(
      figure,
      360,
      {
        scales: isLog
          ? {
              x: { time: false, distr: 3, log: 2, range: (_u, least, most) => [least / 1.5, most * 1.5] },
              y: { distr: 3, log: 10, range: (_u, least, most) => decades(least, most) },
            }
          : {
              x: { time: false, range: (_u, _least, most) => [0, most * 1.03] },
              y: { range: (_u, _least, most) => [0, most * 1.05] },
            },
        axes: [
          {
            ...axis,
            label: chart.over,
            labelSize: 24,
            ...(isLog && { splits: u => ticks(chart.xs, u.width), filter: (_u, splits) => splits }),
            values: (_u, splits) => splits.map(xText),
          },
          {
            ...axis,
            label: chart.axis,
            labelSize: 24,
            size: 84,
            ...(isLog && {
              splits: (_u, _axis, least, most) => steps(least, most),
              filter: (_u, splits) => splits,
            }),
            values: (_u, splits) => splits.map(value => (value == null ? '' : text(value))),
          },
        ],
        legend: {
          markers: {
            width: 2,
            fill: (_u, i) =>
              dashOf(chart.series[i - 1]!) || chart.series[i - 1]!.points === 'only'
                ? 'transparent'
                : colorOf(chart.series[i - 1]!)(),
            dash: (_u, i) => {
              const [dash] = dashOf(chart.series[i - 1]!) ?? [];
              return dash === undefined ? 'solid' : dash < 4 ? 'dotted' : 'dashed';
            },
          },
        },
        series: [
          { label: chart.over, value: (_u, x) => (x == null ? '–' : xText(x)) },
          ...chart.series.map((series): uPlot.Series => {
            const dash = dashOf(series);
            return {
              label: series.label,
              stroke: colorOf(series),
              width: series.points === 'only' ? 0 : series.thin ? 0.75 : 2.25,
              ...(dash && { dash: [...dash] }),
              points: pointsOf(series),
              spanGaps: true,
              value: (_u, value) => (value == null ? '–' : text(value)),
            };
          }),
        ],
        ...(chart.band && {
          bands: [{ series: [chart.band[0] + 1, chart.band[1] + 1], fill: () => `${color('--series-1')()}22` }],
        }),
        hooks: {
          setCursor: [
            u => {
              if (u.cursor.idx == null) u.setLegend({ idx: chart.xs.length - 1 }, false);
            },
          ],
        },
      },
      [chart.xs, ...chart.series.map(({ values }) => values)] as uPlot.AlignedData,
    );
  }
}
