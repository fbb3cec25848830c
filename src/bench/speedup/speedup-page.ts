import { chartTools } from '../../charts/chart-tools';
import { escaped, factList, htmlPage, literal } from '../../charts/html-page';
import { htmlTable } from '../html-table';
import { drawSpeedUp, type SpeedUpChart, type SpeedUpSeries } from './draw-speedup';
import { CHECK_COLUMNS, columnsOf, factsOf, NOTES, type SpeedUpResult, tableRows } from './result';

/** A page with the speed-up over the number of nodes, and all tables. It needs no other files. */
export function speedUpPage(result: SpeedUpResult): string {
  const title = `Speed-up of a cluster: ${result.model}`;
  const checks = htmlTable(CHECK_COLUMNS, result.checks);
  return htmlPage({
    title: `${title} · gradring bench`,
    header: `<h1>${escaped(title)}</h1>\n${factList(factsOf(result))}`,
    main: `<figure id="chart"></figure>
${NOTES.map(note => `<p class="note">${escaped(note)}</p>`).join('\n')}
<h2>Predicted and measured</h2>
<div class="wide">${checks}</div>
<h2>Clusters</h2>
<div class="wide">${htmlTable(columnsOf(result), tableRows(result.rows))}</div>`,
    script: `${chartTools.toString()}\n${drawSpeedUp.toString()}\ndrawSpeedUp(chartTools(uPlot), ${literal(speedUpChart(result))});`,
  });
}

const COLORS = { dgc: 1, dense: 2 } as const;
const NAMES = { dgc: 'DGC', dense: 'dense' } as const;
/** From the fastest rate to the slowest. */
const DASHES: readonly (readonly number[] | undefined)[] = [undefined, [12, 6], [2, 5], [12, 5, 2, 5]];

/** A curve for each way and rate, the ideal, and the paper's points. */
export function speedUpChart({ model, rows, paper }: SpeedUpResult): SpeedUpChart {
  const nodes = [...new Set(rows.map(row => row.nodes))].sort((a, b) => a - b);
  const rates = [...new Set(rows.map(({ rate }) => rate))].reverse();
  const curves = (['dgc', 'dense'] as const).flatMap(way =>
    rates.map((rate, i): SpeedUpSeries => {
      const own = nodes.map(of => rows.find(row => row.nodes === of && row.way === way && row.rate === rate)!);
      const dash = DASHES[i % DASHES.length];
      return {
        label: `${NAMES[way]}, ${rate}`,
        color: COLORS[way],
        values: own.map(({ speedUp }) => speedUp),
        points: own.flatMap(({ source }, place) => (source === 'modelled' ? [] : [place])),
        ...(dash && { dash }),
      };
    }),
  );
  const shown = paper.filter(point => nodes.includes(point.nodes));
  const circles = shown.map((point): SpeedUpSeries => ({
    label: `paper: ${NAMES[point.way]}, ${point.rate}`,
    color: COLORS[point.way],
    values: nodes.map(of => (of === point.nodes ? point.speedUp : null)),
    points: 'only',
  }));
  const read = shown.map(({ way, rate, words }) => `${NAMES[way]} on ${rate} ${words}`).join(', ');
  return {
    title: `Speed-up over one node, ${model}`,
    note: `Lines are modelled, dots on them measured.${read && ` Circles are what section 5 of the paper reads from its figure 6: ${read}.`}`,
    nodes,
    series: [{ label: 'ideal', color: 0, values: nodes, points: [], dash: [4, 4] }, ...curves, ...circles],
  };
}
