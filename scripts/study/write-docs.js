#!/usr/bin/env node
// Writes into docs/study.md what `gradring study` has measured: the tables of each workload, from docs/data/study.json.
const { readFileSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { readResults } = require('../../dist/study/read-results');
const { bytesText, intervalText, ratioText, signed, wordsOf } = require('../../dist/study/words');

const root = path.join(__dirname, '../..');
const PAGE = 'docs/study.md';
const VERDICTS = { passes: 'passes', fails: '**fails**', undecided: 'undecided' };

/** The page with the tables of these results. Each table has its place, between two comments. */
function pageOf(results) {
  let page = readFileSync(path.join(root, PAGE), 'utf8');
  for (const workload of results.workloads) {
    for (const [name, table] of Object.entries(tablesOf(workload, results.declared))) {
      const place = new RegExp(`(?<=<!-- ${workload.name}: ${name}[^>]*-->\n\n)[^]*?(?=\n<!-- end -->)`);
      if (!place.test(page)) throw new Error(`${PAGE} has no place for ${workload.name}: ${name}.`);
      page = page.replace(place, () => markdown(table));
    }
  }
  return page;
}

/** The tables of a workload, as rows of cells. */
function tablesOf({ name, methods, ablation }, { margins, baseline }) {
  const { score, difference, scoreText, differenceText } = wordsOf(margins[name], baseline);
  const interval = (value, text) => (value === null ? '–' : intervalText(value, text));
  const methodRows = methods.map(method => [
    method.name,
    interval(method.interval, scoreText),
    interval(method.differenceFromDense, differenceText),
    interval(method.differenceOverExamples, differenceText),
    interval(method.logLossDifference, value => signed(value, 3)),
    method.verdict === null ? '–' : VERDICTS[method.verdict],
    bytesText(method.bytesSentPerRank),
    ratioText(method.ratio),
    ratioText(method.ratioAfterWarmUp),
    method.paper === undefined ? '–' : ratioText(method.paper.ratio),
  ]);
  const heads = ['sent by a rank', 'ratio', '… after warm-up', '… in the paper'];
  const ablationRows = ablation.map(variant => [
    variant.name,
    variant.interval === null
      ? `${variant.diverged} of ${variant.seeds.length} diverged`
      : intervalText(variant.interval, scoreText),
    interval(variant.differenceFromFull, differenceText),
  ]);
  const scoreHead = score.toLowerCase();
  const differenceHead = difference.toLowerCase();
  return {
    methods: [
      ['method', scoreHead, `${differenceHead}, over seeds`, '… over examples', 'log-loss', 'verdict', ...heads],
      ...methodRows,
    ],
    ...(ablation.length > 0 && {
      ablation: [['variant', scoreHead, `${differenceHead}, from DGC`], ...ablationRows],
    }),
  };
}

/** A table as Prettier writes it; the first row is the heading. */
function markdown([heads, ...rows]) {
  const widths = heads.map((_, i) => Math.max(...[heads, ...rows].map(row => row[i].length)));
  const line = row => `| ${row.map((cell, i) => cell.padEnd(widths[i])).join(' | ')} |`;
  return `${[heads, widths.map(width => '-'.repeat(width)), ...rows].map(row => line(row)).join('\n')}\n`;
}

/** The results that are committed. */
const committedResults = () => readResults(path.join(root, 'docs/data/study.json'));

if (require.main === module) writeFileSync(path.join(root, PAGE), pageOf(committedResults()));

module.exports = { committedResults, pageOf };
