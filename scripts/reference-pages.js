#!/usr/bin/env node
// Writes the options of a rank (src/environment/rank-options.ts) into the reference pages. Build first: npm run build.
//
//   node scripts/reference-pages.js           # writes the rows
//   node scripts/reference-pages.js --check   # exits with 1 if a row is missing, or says something else
const { readFileSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const prettier = require('prettier');
const { defaultWords, flagName, LAUNCHED, RANK_OPTIONS } = require('../dist/environment/rank-options');

const PAGES = path.join(__dirname, '../docs/reference');

/** The rows of each page, by their first cell. */
const ROWS = {
  'environment-variables.md': Object.entries(RANK_OPTIONS).map(([name, { variable, meaning }]) => [
    ...[`\`${variable}\``, `\`${name}\``, meaning, inMarkdown(name)],
  ]),
  'cli.md': LAUNCHED.map(([name, { meaning }]) => [`\`--${flagName(name)}\``, meaning, inMarkdown(name)]),
};

async function main() {
  const isCheck = process.argv.includes('--check');
  for (const [page, rows] of Object.entries(ROWS)) {
    const file = path.join(PAGES, page);
    const text = readFileSync(file, 'utf8');
    const options = { ...(await prettier.resolveConfig(file)), parser: 'markdown' };
    const written = await prettier.format(withRows(text, rows), options);
    if (written === text) continue;
    if (!isCheck) writeFileSync(file, written);
    else {
      console.error(`docs/reference/${page} has other rows than src/environment/rank-options.ts.`);
      process.exitCode = 1;
    }
  }
}

/**
 * A page with these rows. One that the page does not have yet follows the row before it.
 *
 * @param {string} text
 * @param {string[][]} rows
 */
function withRows(text, rows) {
  const lines = text.split('\n');
  let last = -1;
  for (const cells of rows) {
    const row = `| ${cells.join(' | ')} |`;
    const at = lines.findIndex(line => line.startsWith(`| ${cells[0]} `));
    if (at === -1) lines.splice(++last, 0, row);
    else lines[(last = at)] = row;
  }
  return lines.join('\n');
}

/** @param {string} option */
function inMarkdown(option) {
  const name = /** @type {keyof typeof RANK_OPTIONS} */ (option);
  const row = RANK_OPTIONS[name];
  if ('otherwise' in row) return defaultWords(name);
  return typeof row.byDefault === 'number' ? row.byDefault.toLocaleString('en-US') : `\`${row.byDefault}\``;
}

void main();
