import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, hostname } from 'node:os';
import { type Column, formatTable } from '../table';
import { readVersion } from '../version';
import type { Chart } from './chart';
import { drawCharts } from './draw-charts';

/** What a page of a benchmark shows, from top to bottom. */
export interface Page {
  readonly title: string;
  /** Names and values, in words. */
  readonly facts: readonly (readonly [name: string, words: string])[];
  readonly charts: readonly Chart[];
  /** HTML, after the charts. */
  readonly content: string;
}

/** Where and when a run took place. */
export function factsOfRun(command: string, startedAt: Date): [name: string, words: string][] {
  return [
    ['command', command],
    ['date', startedAt.toISOString().replace('T', ' ').replace(/\..*/, ' UTC')],
    ['host', `${hostname()}, ${availableParallelism()} cores, ${cpus()[0]?.model ?? 'unknown processor'}`],
    ['software', `gradring ${readVersion()}, Node ${process.version}, ${process.platform} ${process.arch}`],
  ];
}

/** A page for a browser. It needs no other files. */
export function htmlPage({ title, facts, charts, content }: Page): string {
  return `<!doctype html>
<!-- The charts are drawn by uPlot:
${library('../LICENSE')}-->
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)} · gradring bench</title>
<link rel="icon" href="data:,">
<style>
${library('uPlot.min.css')}
${STYLE}
</style>
</head>
<body>
<header>
<h1>${escaped(title)}</h1>
<dl>${facts.map(([name, words]) => `<dt>${name}</dt><dd>${escaped(words)}</dd>`).join('\n')}</dl>
</header>
<main>
<div id="charts"></div>
${content}
</main>
<script>${library('uPlot.iife.min.js')}</script>
<script>
${drawCharts.toString()}
drawCharts(uPlot, ${JSON.stringify(charts).replaceAll('<', '\\u003c')});
</script>
</body>
</html>
`;
}

function library(file: string): string {
  return readFileSync(require.resolve(`uplot/dist/${file}`), 'utf8');
}

/** A table with a heading above it. Its cells are those of a terminal. */
export function htmlTable<Row>(heading: string, columns: readonly Column<Row>[], rows: readonly Row[]): string {
  return `<h2>${heading}</h2>\n<div class="wide">${cells(columns, rows)}</div>`;
}

function cells<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  if (rows.length === 0) return '<p>Nothing was measured.</p>';
  const shown = columns.filter(({ value }) => rows.some(row => value(row) !== undefined));
  const texts = shown.map(column => formatTable([column], rows).map(text => escaped(text.trim())));
  const line = (tag: string, i: number): string =>
    `<tr>${texts.map(column => `<${tag}>${column[i]!}</${tag}>`).join('')}</tr>`;
  const body = rows.map((_, i) => line('td', i + 1)).join('\n');
  return `<table><thead>${line('th', 0)}</thead><tbody>${body}</tbody></table>`;
}

/** Text as HTML. */
export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

const STYLE = `
:root { color-scheme: light dark; --page: #f7f7f5; --panel: #fff; --ink: #1d1d1f; --faint: #6b6b70; --line: #e3e3e0;
  --series-1: #2563eb; --series-2: #d9480f; --series-3: #2b8a3e; --series-4: #9333ea; --series-5: #b08900; --series-6: #c2255c; }
@media (prefers-color-scheme: dark) { :root { --page: #16171a; --panel: #1e2024; --ink: #ececf0; --faint: #a0a3aa; --line: #34373d;
  --series-1: #7aa7ff; --series-2: #ff9a62; --series-3: #69c97e; --series-4: #c79bff; --series-5: #e3c04b; --series-6: #ff8ab3; } }
body { margin: 0; padding: 2rem clamp(1rem, 4vw, 3rem); background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; }
header, main { max-width: 1100px; margin: 0 auto; }
h1 { margin: 0 0 .75rem; font-size: 1.75rem; letter-spacing: -.01em; }
h2 { margin: 0 0 .5rem; font-size: 1.05rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0 0 1.5rem; font-size: .9rem; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
figure, .wide { margin: 0 0 1.5rem; padding: 1rem 1.25rem; background: var(--panel); border: 1px solid var(--line);
  border-radius: 10px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .3rem .5rem; text-align: right; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; } tbody tr:last-child td { border-bottom: 0; }
.note { color: var(--faint); font-size: .85rem; } figure .note { margin: 0 0 .75rem; }
.u-legend.u-inline { display: flex; flex-wrap: wrap; justify-content: center; font-size: .85rem; white-space: nowrap; }
.u-legend.u-inline tbody { display: contents; } .u-legend th { font-weight: 500; }
 .u-legend th, .u-legend td { border: 0; padding: .1rem .3rem; color: var(--ink); }
.u-legend .u-value { font-variant-numeric: tabular-nums; }
`;
