import { availableParallelism, cpus, hostname } from 'node:os';
import { readVersion } from '../../version';
import { chartTools } from '../../charts/chart-tools';
import { dateText, escaped, factList, htmlPage, literal } from '../../charts/html-page';
import { htmlTable } from '../html-table';
import { chartsOf } from './charts';
import { drawCharts } from './draw-charts';
import { factsOf } from './facts';
import { COLUMNS, type CollectiveRow } from './row';

/** What a page shows beside its rows. */
export interface PageOptions {
  readonly command: string;
  readonly startedAt: Date;
}

/** A page with charts and a table of the rows of one run. It needs no other files. */
export function chartPage(rows: readonly CollectiveRow[], { command, startedAt }: PageOptions): string {
  const [first] = rows;
  const title = first === undefined ? 'gradring' : `${first.collective}, ${first.ranks} ranks`;
  const charts = chartsOf(rows);
  const facts: [name: string, words: string][] = [
    ['command', command],
    ['date', dateText(startedAt)],
    ['host', `${hostname()}, ${availableParallelism()} cores, ${cpus()[0]?.model ?? 'unknown processor'}`],
    ['software', `gradring ${readVersion()}, Node ${process.version}, ${process.platform} ${process.arch}`],
    ...factsOf(rows),
  ];
  return htmlPage({
    title: `${title} · gradring bench`,
    header: `<h1>${escaped(title)}</h1>\n${factList(facts)}`,
    main: `<div id="charts"></div>
<h2>All rows</h2>
<div class="wide">${htmlTable(COLUMNS, rows)}</div>
<p class="note">Times are those of rank 0. p50 is the median; one iteration of a hundred took longer than p99.${charts.length > 0 ? ' algbw is size ÷ p50.' : ''}</p>`,
    script: `${chartTools.toString()}\n${drawCharts.toString()}\ndrawCharts(chartTools(uPlot), ${literal(charts)});`,
  });
}
