#!/usr/bin/env node
// Writes into docs/performance.md what scripts/performance/measure.js has measured: the commands and the tables, from
// docs/data/performance.json; and how long the training of `npm start` takes on other links, from what `npm start` has
// measured and docs/data/speedup-digits.json.
const { readFileSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { markdownTable, withText } = require('../markdown-table');
const { MEASUREMENTS } = require('./measurements');

const root = path.join(__dirname, '../..');
const PAGE = 'docs/performance.md';

/** The page with the commands and tables of these results. */
function pageOf({ measurements }) {
  let page = readFileSync(path.join(root, PAGE), 'utf8');
  for (const [name, { runs }] of Object.entries(measurements)) {
    const commands = [...new Set(runs.map(({ command }) => command))].join('\n');
    page = withText(page, name, `\`\`\`sh\n${commands}\n\`\`\`\n\n${markdownTable(MEASUREMENTS[name].table(runs))}`);
  }
  return withText(page, 'time to accuracy', timeToAccuracy(readData('start'), readData('speedup-digits')));
}

/** The seconds of the training of `npm start`, if N machines need as many steps as one. */
function timeToAccuracy({ gain }, { command, rows }) {
  const sizes = [...new Set(rows.map(({ nodes }) => nodes))].filter(nodes => nodes > 1);
  const rates = [...new Set(rows.map(({ rate }) => rate))];
  const lines = rates.flatMap(rate =>
    ['dense', 'dense16', 'lowRank'].map(way => {
      const speedUp = size => rows.find(row => row.rate === rate && row.way === way && row.nodes === size).speedUp;
      const seconds = sizes.map(size => (gain.alone.secondsToTarget / speedUp(size)).toFixed(1));
      return [rate, { dense: 'dense', dense16: 'dense, 16 bits', lowRank: '`lowRank()`' }[way], ...seconds];
    }),
  );
  const heads = ['rate', 'way', ...sizes.map(size => `${size} machines`)];
  return `\`\`\`sh\nnpx ${command}\n\`\`\`\n\n${markdownTable([heads, ...lines])}`;
}

const readData = name => JSON.parse(readFileSync(path.join(root, `docs/data/${name}.json`), 'utf8'));

/** The results that are committed. */
const committedResults = () => readData('performance');

if (require.main === module) writeFileSync(path.join(root, PAGE), pageOf(committedResults()));

module.exports = { committedResults, pageOf };
