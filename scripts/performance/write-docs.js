#!/usr/bin/env node
// Writes into docs/performance.md what scripts/performance/measure.js has measured: the commands and the tables, from
// docs/data/performance.json.
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
  return page;
}

/** The results that are committed. */
const committedResults = () => JSON.parse(readFileSync(path.join(root, 'docs/data/performance.json'), 'utf8'));

if (require.main === module) writeFileSync(path.join(root, PAGE), pageOf(committedResults()));

module.exports = { committedResults, pageOf };
