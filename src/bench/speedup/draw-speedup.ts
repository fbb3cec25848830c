import type uPlot from 'uplot';
import type { ChartTools } from '../../charts/chart-tools';

/** A curve over the number of nodes. */
export interface SpeedUpSeries {
  readonly label: string;
  /** The number of its colour; 0 is for what only helps to read the others. */
  readonly color: number;
  /** By number of nodes; null if there is no value. */
  readonly values: readonly (number | null)[];
  /** The lengths of dashes and gaps. Left out for a whole line. */
  readonly dash?: readonly number[];
  /** At which numbers of nodes there are points; `only` draws no line, and circles. */
  readonly points: readonly number[] | 'only';
}

/** The chart of a page, as plain data. */
export interface SpeedUpChart {
  readonly title: string;
  /** A sentence below the title. */
  readonly note: string;
  /** Numbers of nodes, ascending. */
  readonly nodes: readonly number[];
  readonly series: readonly SpeedUpSeries[];
}

/**
 * Draws the chart of a page in a browser. The text of this function is part of the page, so the function must not use
 * anything from outside itself.
 */
export function drawSpeedUp({ color, number, axis, draw }: ChartTools, chart: SpeedUpChart): void {
  const figure = document.getElementById('chart')!;
  figure.appendChild(document.createElement('h2')).textContent = chart.title;
  const note = figure.appendChild(document.createElement('p'));
  note.className = 'note';
  note.textContent = chart.note;
  const colorOf = ({ color: of }: SpeedUpSeries) => color(of === 0 ? '--faint' : `--series-${of}`);
  const times = (value: number): string => `${number(value)}×`;
  const pointsOf = (series: SpeedUpSeries): uPlot.Series.Points => {
    const { points } = series;
    if (points === 'only') return { show: true, size: 12, width: 2.5, fill: color('--panel'), stroke: colorOf(series) };
    return { show: points.length > 0, size: 7, fill: colorOf(series), filter: () => [...points] };
  };
  draw(
    figure,
    400,
    {
      scales: {
        x: { time: false, range: (_u, _least, most) => [0, most * 1.03] },
        y: { range: (_u, _least, most) => [0, most * 1.05] },
      },
      axes: [
        { ...axis, label: 'nodes', labelSize: 24 },
        { ...axis, label: 'speed-up', labelSize: 24, size: 64, values: (_u, splits) => splits.map(times) },
      ],
      legend: {
        markers: {
          width: 2,
          fill: (_u, i) => {
            const series = chart.series[i - 1]!;
            return series.dash || series.points === 'only' ? 'transparent' : colorOf(series)();
          },
          dash: (_u, i) => {
            const [dash] = chart.series[i - 1]!.dash ?? [];
            return dash === undefined ? 'solid' : dash < 4 ? 'dotted' : 'dashed';
          },
        },
      },
      series: [
        { label: 'nodes' },
        ...chart.series.map((series): uPlot.Series => {
          const { label, dash, points } = series;
          return {
            ...{ label, stroke: colorOf(series), points: pointsOf(series) },
            width: points === 'only' ? 0 : series.color === 0 ? 0.75 : 2.25,
            ...(dash && { dash: [...dash] }),
            value: (_u, value) => (value == null ? '–' : times(value)),
          };
        }),
      ],
      hooks: {
        setCursor: [
          u => {
            if (u.cursor.idx == null) u.setLegend({ idx: chart.nodes.length - 1 }, false);
          },
        ],
      },
    },
    [chart.nodes, ...chart.series.map(({ values }) => values)] as uPlot.AlignedData,
  );
}
