import { availableParallelism, cpus, hostname } from 'node:os';
import { dateText } from '../../charts/html-page';
import { readVersion } from '../../version';
import { benchPage, section } from '../page';
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
  return benchPage({
    title: first === undefined ? 'gradring' : `${first.collective}, ${first.ranks} ranks`,
    facts: [
      ['command', command],
      ['date', dateText(startedAt)],
      ['host', `${hostname()}, ${availableParallelism()} cores, ${cpus()[0]?.model ?? 'unknown processor'}`],
      ['software', `gradring ${readVersion()}, Node ${process.version}, ${process.platform} ${process.arch}`],
      ...factsOf(rows),
    ],
    charts,
    content: `${section('All rows', COLUMNS, rows)}\n<p class="note">${note}</p>`,
  });
}
