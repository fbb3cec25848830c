import { factsOfRun, htmlPage, htmlTable } from '../page';
import { chartsOf } from './charts';
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
  const charts = chartsOf(rows);
  const note = `Times are those of rank 0. p50 is the median; one iteration of a hundred took longer than p99.${charts.length > 0 ? ' algbw is size ÷ p50.' : ''}`;
  return htmlPage({
    title: first === undefined ? 'gradring' : `${first.collective}, ${first.ranks} ranks`,
    facts: [...factsOfRun(command, startedAt), ...factsOf(rows)],
    charts,
    content: `${htmlTable('All rows', COLUMNS, rows)}\n<p class="note">${note}</p>`,
  });
}
