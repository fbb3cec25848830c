#!/usr/bin/env node
// Writes into docs/reference/operations.md what scripts/operations/measure.js has measured, from
// docs/data/operations.json.
const { readFileSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { harness } = require('../harness');
const { markdownTable, withText } = require('../markdown-table');

const root = path.join(__dirname, '../..');
const PAGE = 'docs/reference/operations.md';

const code = name => `\`${name}\``;

const titleOf = name => (name.includes(' ') ? name : code(`tf.${name}`));

/** How an operation fares on a backend, in a few words. */
function cellOf({ cases, values, gradients, own, failures }) {
  if (values === undefined) return 'missing';
  const error = Math.max(values, gradients ?? 0);
  const by = own.length > 0 ? 'gradring' : 'agrees';
  const parts = [gradients === undefined ? `no gradient, ${by}` : by, error === 0 ? '0' : error.toExponential(0)];
  const others = new Set(failures.filter(({ of }) => of === 'values' || gradients !== undefined).flatMap(({ cases }) => cases)); // prettier-ignore
  if (others.size > 0) parts.push(`not in ${others.size} of ${cases}`);
  return parts.join(', ');
}

function operationsTable(backends) {
  const names = Object.keys(Object.values(backends)[0].operations);
  const heads = ['operation', 'cases', ...Object.keys(backends)];
  const rows = names.map(name => {
    const summaries = Object.values(backends).map(({ operations }) => operations[name]);
    return [titleOf(name), String(summaries[0].cases), ...summaries.map(cellOf)];
  });
  return markdownTable([heads, ...rows]);
}

/** What fails, and why. What fails alike on several backends has one row. */
function failuresTable(backends) {
  const backendsOf = new Map();
  for (const [backend, { operations }] of Object.entries(backends)) {
    for (const [name, { cases: all, failures }] of Object.entries(operations)) {
      for (const { of, why, cases } of failures) {
        const which = cases.length === all ? titleOf(name) : `${titleOf(name)} (${cases.join('; ')})`;
        const key = [why, of, which].join('\n');
        backendsOf.set(key, backendsOf.has(key) ? `${backendsOf.get(key)}, ${backend}` : backend);
      }
    }
  }
  const operationsOf = new Map();
  for (const [key, on] of backendsOf) {
    const [why, of, which] = key.split('\n');
    const row = [why, of, on].join('\n');
    operationsOf.set(row, [...(operationsOf.get(row) ?? []), which]);
  }
  const rows = [...operationsOf].sort().map(([row, operations]) => [...row.split('\n'), operations.join(', ')]);
  return markdownTable([['why', 'what fails', 'backends', 'operations (cases)'], ...rows]);
}

/** The kernels and gradients that gradring adds or replaces. */
function ownTable(backends) {
  const prefix = 'the gradient of ';
  /** @type {[backend: string, names: string[]][]} */
  const own = Object.entries(backends).map(([backend, { operations }]) => [
    backend,
    [...new Set(Object.values(operations).flatMap(({ own }) => own))].sort(),
  ]);
  const list = names => names.map(code).join(', ');
  const gradients = [...new Set(own.flatMap(([, names]) => names.filter(name => name.startsWith(prefix))))].sort();
  return markdownTable([
    ['where', 'what'],
    ...own.map(([backend, names]) => [`kernels of ${backend}`, list(names.filter(name => !name.startsWith(prefix)))]),
    ['gradients, on all backends', list(gradients.map(name => name.slice(prefix.length)))],
  ]);
}

function summaryOf(backends) {
  const summaries = Object.values(Object.values(backends)[0].operations);
  const cases = summaries.reduce((sum, each) => sum + each.cases, 0);
  const versions = Object.values(backends)
    .map(({ versions }) => Object.entries(versions))
    .flat();
  const named = [...new Set(versions.map(version => version.join(' ')))].join(' and ');
  return `${summaries.length} operations and layers in ${cases} cases, measured with ${named}.\n`;
}

function notComparedTable() {
  const { NOT_COMPARED } = harness('operations/operations');
  const rows = Object.entries(NOT_COMPARED).map(([why, names]) => [why, names.map(code).join(', ')]);
  return markdownTable([['why', 'operations'], ...rows]);
}

/** The page with the tables of these measurements. */
function pageOf(backends) {
  const texts = {
    'the summary': summaryOf(backends),
    'the operations': operationsTable(backends),
    'the failures': failuresTable(backends),
    'what is replaced': ownTable(backends),
    'what is not compared': notComparedTable(),
  };
  const page = readFileSync(path.join(root, PAGE), 'utf8');
  return Object.entries(texts).reduce((text, [place, written]) => withText(text, place, written), page);
}

/** The measurements that are committed. */
const committedOperations = () => JSON.parse(readFileSync(path.join(root, 'docs/data/operations.json'), 'utf8'));

const writePage = () => writeFileSync(path.join(root, PAGE), pageOf(committedOperations()));

if (require.main === module) writePage();

module.exports = { committedOperations, pageOf, writePage };
