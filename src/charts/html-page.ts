import { readFileSync } from 'node:fs';

/** The parts of a page. All but the title are HTML, CSS and JavaScript as they are. */
export interface HtmlPage {
  readonly title: string;
  /** Comes after {@link STYLE}. */
  readonly style?: string;
  readonly header: string;
  readonly main: string;
  /** Sees `uPlot`. */
  readonly script: string;
}

/** A page with charts as one file. It needs no other files, and its policy lets a browser fetch none. */
export function htmlPage({ title, style = '', header, main, script }: HtmlPage): string {
  return `<!doctype html>
<!-- The charts are drawn by uPlot:
${library('../LICENSE')}-->
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)}</title>
<link rel="icon" href="data:,">
<style>
${library('uPlot.min.css')}
${STYLE}${style}
</style>
</head>
<body>
<header>
${header}
</header>
<main>
${main}
</main>
<script>${library('uPlot.iife.min.js')}</script>
<script>
${script}
</script>
</body>
</html>
`;
}

function library(file: string): string {
  return readFileSync(require.resolve(`uplot/dist/${file}`), 'utf8');
}

/** Text as HTML. */
export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

/** Plain data as JavaScript that may stand in a script element. */
export function literal(data: unknown): string {
  return JSON.stringify(data).replaceAll('<', '\\u003c');
}

/** Names and values, as a list. */
export function factList(facts: readonly (readonly [name: string, words: string])[]): string {
  return `<dl>${facts.map(([name, words]) => `<dt>${escaped(name)}</dt><dd>${escaped(words)}</dd>`).join('\n')}</dl>`;
}

/** A table of HTML cells. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[], kind = ''): string {
  const line = (tag: string, cells: readonly string[]): string =>
    `<tr>${cells.map(each => `<${tag}>${each}</${tag}>`).join('')}</tr>`;
  return `<div class="wide"><table${kind && ` class="${kind}"`}><thead>${line('th', headings)}</thead><tbody>
${rows.map(cells => line('td', cells)).join('\n')}
</tbody></table></div>`;
}

/** A moment as `2020-02-02 03:04:05 UTC`. */
export function dateText(moment: Date): string {
  return moment.toISOString().replace('T', ' ').replace(/\..*/, ' UTC');
}

/** How many colours {@link STYLE} has for curves: `--series-1`, `--series-2`, … */
export const COLORS = 8;

const STYLE = `
:root { color-scheme: light dark; --page: #f7f7f5; --panel: #fff; --ink: #1d1d1f; --faint: #6b6b70; --line: #e3e3e0;
  --series-1: #2563eb; --series-2: #d9480f; --series-3: #2b8a3e; --series-4: #9333ea; --series-5: #b08900; --series-6: #c2255c;
  --series-7: #0c8599; --series-8: #84563c; }
@media (prefers-color-scheme: dark) { :root { --page: #16171a; --panel: #1e2024; --ink: #ececf0; --faint: #a0a3aa; --line: #34373d;
  --series-1: #7aa7ff; --series-2: #ff9a62; --series-3: #69c97e; --series-4: #c79bff; --series-5: #e3c04b; --series-6: #ff8ab3;
  --series-7: #4cc9dc; --series-8: #cfa083; } }
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
