import { escaped } from '../../charts/html-page';
import type { Chart, ChartSeries } from '../chart';
import { benchPage, section } from '../page';
import { type ClusterWay, WAYS } from './cluster-model';
import { CHECK_COLUMNS, columnsOf, factsOf, NOTES, type SpeedUpResult, tableRows } from './result';

/** A page with the speed-up over the number of nodes, and all tables. It needs no other files. */
export function speedUpPage(result: SpeedUpResult): string {
  return benchPage({
    title: `Speed-up of a cluster: ${result.model}`,
    facts: factsOf(result),
    charts: [speedUpChart(result)],
    content: [
      ...NOTES.map(note => `<p class="note">${escaped(note)}</p>`),
      ...(result.checks.length > 0 ? [section('Predicted and measured', CHECK_COLUMNS, result.checks)] : []),
      section('Clusters', columnsOf(result), tableRows(result.rows)),
    ].join('\n'),
  });
}

const COLORS = { dgc: 1, dense: 2, dense16: 3, lowRank: 4, scatter: 5 } as const satisfies Record<ClusterWay, number>;
/** From the fastest rate to the slowest. */
const DASHES: readonly (readonly number[] | undefined)[] = [undefined, [12, 6], [2, 5], [12, 5, 2, 5]];

/** A curve for each way and rate, the ideal, and the paper's points. */
export function speedUpChart({ model, rows, paper }: SpeedUpResult): Chart {
  const xs = [...new Set(rows.map(({ nodes }) => nodes))].sort((a, b) => a - b);
  const rates = [...new Set(rows.map(({ rate }) => rate))].reverse();
  const curves = (['lowRank', 'scatter', 'dgc', 'dense16', 'dense'] as const).flatMap(way =>
    rates.map((rate, i): ChartSeries => {
      const own = xs.map(nodes => rows.find(row => row.nodes === nodes && row.way === way && row.rate === rate)!);
      const dash = DASHES[i % DASHES.length];
      return {
        label: `${WAYS[way]}, ${rate}`,
        color: COLORS[way],
        values: own.map(({ speedUp }) => speedUp),
        thin: false,
        points: own.flatMap(({ source }, place) => (source === 'modelled' ? [] : [place])),
        ...(dash && { dash }),
      };
    }),
  );
  const shown = paper.filter(({ nodes }) => xs.includes(nodes));
  const circles = shown.map(({ way, rate, nodes, speedUp }): ChartSeries => ({
    label: `paper: ${WAYS[way]}, ${rate}`,
    color: COLORS[way],
    values: xs.map(x => (x === nodes ? speedUp : null)),
    thin: false,
    points: 'only',
  }));
  const read = shown.map(({ way, rate, words }) => `${WAYS[way]} on ${rate} ${words}`).join(', ');
  return {
    title: `Speed-up over one node, ${model}`,
    note: `Lines are modelled, dots on them measured.${read && ` Circles are what section 5 of the paper reads from its figure 6: ${read}.`}`,
    axis: 'speed-up',
    unit: '×',
    over: 'nodes',
    xs,
    series: [{ label: 'ideal', color: 0, values: xs, thin: true }, ...curves, ...circles],
  };
}
