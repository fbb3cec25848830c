import { writeFileSync } from 'node:fs';
import { Progress } from '../progress';
import { endWithReader } from '../results';
import { formatTable } from '../../table';
import { sizeText } from './byte-sizes';
import { chartPage } from './chart-page';
import type { Plan } from './collective-benchmark';
import { busbwWords, factsOf } from './facts';
import { COLUMNS, type CollectiveRow } from './row';
import type { RunListener, RunProgress } from './run-rank';
import { TimeLeft } from './time-left';
import { ELEMENT_BYTES } from '../../collectives/element-type';

/** How the rows of a run are shown. */
export interface ReportOptions {
  /** Whether to write each row as a line of JSON as soon as it is measured. If not, a table follows at the end. */
  readonly json: boolean;
  /** The file for a page with charts, if one is wanted. */
  readonly html: string | undefined;
  /** The rate of each link in bits a second, if it is known. */
  readonly lineRate: number | undefined;
  /** The command line, for the page. */
  readonly command: string;
}

/** Shows the rows of a run on standard output and as a page. If the reader closes the output, the process ends. */
export class Report implements RunListener {
  private readonly rows: CollectiveRow[] = [];
  private readonly progressLine = new Progress();
  private readonly timeLeft: TimeLeft;
  private readonly startedAt = new Date();
  private readonly forget = endWithReader();

  /** Standard error for the ranks. What they write does not mix with the progress line. */
  readonly stderr = this.progressLine.stderr();

  constructor(
    private readonly plan: Plan,
    private readonly options: ReportOptions,
  ) {
    this.timeLeft = new TimeLeft(plan.cases);
  }

  /** Whether any result was wrong. */
  get wrong(): boolean {
    return this.rows.some(({ wrong = 0 }) => wrong > 0);
  }

  readonly row = (measured: CollectiveRow): void => {
    const { lineRate } = this.options;
    const row =
      lineRate === undefined
        ? measured
        : { ...measured, lineFraction: Number(((measured.busbwGBps * 8e9) / lineRate).toFixed(4)) };
    this.rows.push(row);
    if (!this.options.json) return;
    this.progressLine.clear();
    process.stdout.write(`${JSON.stringify(row)}\n`);
  };

  readonly progress = (progress: RunProgress): void => {
    const { cases, collective } = this.plan;
    const { elements, type } = cases[progress.row]!;
    const size = elements === 0 ? '' : ` of ${sizeText(elements * ELEMENT_BYTES[type])}`;
    const left = this.timeLeft.text(progress);
    this.progressLine.show(`${progress.row + 1}/${cases.length}: ${collective}${size}${left && `, ${left}`}`);
  };

  /** Writes the table and the page of the rows so far. */
  async finish(): Promise<void> {
    this.progressLine.clear();
    const { json, html, command } = this.options;
    if (!json && this.rows.length > 0) process.stdout.write(`${this.tableLines().join('\n')}\n`);
    if (html !== undefined) writeFileSync(html, chartPage(this.rows, { command, startedAt: this.startedAt }));
    await new Promise<void>(resolve => process.stdout.write('', () => resolve()));
    this.forget();
  }

  private tableLines(): string[] {
    const facts = factsOf(this.rows).map(([name, words]) => `${name}: ${words}`);
    const isSized = this.rows.some(({ bytes }) => bytes > 0);
    return [...facts, ...(isSized ? [busbwWords(this.plan.collective)] : []), '', ...formatTable(COLUMNS, this.rows)];
  }
}
