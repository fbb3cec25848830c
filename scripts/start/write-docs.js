#!/usr/bin/env node
// Writes into the docs what `npm start` has measured: from docs/data/start.json to the table in README.md and to
// docs/start.svg. `npm run start:docs` measures first.
const { readFileSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { plotOf } = require('./plot');
const { tableOf } = require('./result');

const root = path.join(__dirname, '../..');
const TABLE = /(?<=<!-- The table of `npm start`[^>]*-->\n\n```text\n)[^]*?(?=```\n)/;

/** The files of the docs that show the result: from each path to its text. */
function docsOf(result) {
  const readme = readFileSync(path.join(root, 'README.md'), 'utf8');
  const table = `${tableOf(result).join('\n')}\n`;
  if (!TABLE.test(readme)) throw new Error('README.md has no place for the table of npm start.');
  return { 'README.md': readme.replace(TABLE, () => table), 'docs/start.svg': plotOf(result) };
}

/** The result that is committed. */
const committedResult = () => JSON.parse(readFileSync(path.join(root, 'docs/data/start.json'), 'utf8'));

if (require.main === module) {
  for (const [file, text] of Object.entries(docsOf(committedResult()))) writeFileSync(path.join(root, file), text);
}

module.exports = { committedResult, docsOf };
