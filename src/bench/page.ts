import { chartTools } from '../charts/chart-tools';
import { escaped, factList, htmlPage, literal, table } from '../charts/html-page';
import { type Column, formatTable } from '../table';
import type { Chart } from './chart';
import { drawCharts } from './draw-charts';

/** What a page of a benchmark shows, from top to bottom. */
export interface BenchPage {
  readonly title: string;
  /** Names and values, in words. */
  readonly facts: readonly (readonly [name: string, words: string])[];
  readonly charts: readonly Chart[];
  /** HTML, after the charts. */
  readonly content: string;
}

/** A page of a benchmark, as one HTML file. */
export function benchPage({ title, facts, charts, content }: BenchPage): string {
  return htmlPage({
    title: `${title} · gradring bench`,
    header: `<h1>${escaped(title)}</h1>\n${factList(facts)}`,
    main: `<div id="charts"></div>\n${content}`,
    script: `${chartTools.toString()}\n${drawCharts.toString()}\ndrawCharts(chartTools(uPlot), ${literal(charts)});`,
  });
}

/** A table with a heading above it, as HTML. Its cells are those of a terminal. */
export function section<Row>(heading: string, columns: readonly Column<Row>[], rows: readonly Row[]): string {
  if (rows.length === 0) return `<h2>${heading}</h2>\n<p>Nothing was measured.</p>`;
  const shown = columns.filter(({ value }) => rows.some(row => value(row) !== undefined));
  const texts = shown.map(column => formatTable([column], rows).map(text => escaped(text.trim())));
  const [headings, ...lines] = [undefined, ...rows].map((_, i) => texts.map(column => column[i]!));
  return `<h2>${heading}</h2>\n${table(headings!, lines)}`;
}
