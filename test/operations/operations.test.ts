import * as tf from '@tensorflow/tfjs';
import { readFileSync } from 'node:fs';
import { committedOperations, pageOf } from '../../scripts/operations/write-docs';
import { readPage } from '../support/doc-pages';
import { runScript } from '../support/scripts';
import type { Summary } from './compare';
import { NOT_COMPARED, OPERATIONS } from './operations';

type Measurements = Record<
  string,
  { readonly untried: readonly string[]; readonly operations: Readonly<Record<string, Summary>> }
>;

const committed = committedOperations() as Measurements;

/** What is the same on every machine: all but the sizes of errors. */
const withoutErrors = (operations: Readonly<Record<string, Summary>>) =>
  Object.fromEntries(
    Object.entries(operations).map(([name, { cases, own, failures }]) => [name, { cases, own, failures }]),
  );

const wrong = (operations: Readonly<Record<string, Summary>>) =>
  Object.entries(operations).flatMap(([name, { failures }]) =>
    failures.filter(({ why }) => why === 'wrong').map(({ of, cases }) => [name, of, ...cases]),
  );

describe('compared with true results and gradients', () => {
  let measured: Measurements;
  beforeAll(async () => {
    const { exitCode, stdout, stderr } = await runScript('operations/measure', 'wasm', 'cpu');
    if (exitCode !== 0) throw new Error(stderr);
    measured = JSON.parse(stdout) as Measurements;
  }, 180_000);

  describe.each(['wasm', 'cpu'])('%s', backend => {
    test('has no wrong number', () => expect(wrong(measured[backend]!.operations)).toEqual([]));

    test('fails and is corrected where the docs say so, and nowhere else', () =>
      expect(withoutErrors(measured[backend]!.operations)).toEqual(withoutErrors(committed[backend]!.operations)));

    test('has a case for every kernel with a gradient', () => expect(measured[backend]!.untried).toEqual([]));
  });
});

test('the docs show the measurements that are committed: no wrong number, of all cases, on three backends', () => {
  expect(readPage('docs/reference/operations.md')).toBe(pageOf(committed));
  const counts = Object.entries(OPERATIONS).map(([name, cases]) => [name, cases.length]);
  expect(Object.keys(committed)).toEqual(['wasm', 'cpu', 'tfjs-node']);
  for (const { operations } of Object.values(committed)) {
    expect(Object.entries(operations).map(([name, { cases }]) => [name, cases])).toEqual(counts);
    expect(wrong(operations)).toEqual([]);
  }
});

test('every operation and layer of TensorFlow.js has cases, or a reason why not', () => {
  const declared = readFileSync(require.resolve('@tensorflow/tfjs-core/dist/ops/ops.d.ts'), 'utf8');
  const names = [...declared.matchAll(/^export \{ (.*) \}/gm)].flatMap(([, list]) => list!.split(', '));
  const groups = ['image', 'losses', 'linalg', 'signal', 'spectral', 'fused', 'sparse', 'string', 'layers'] as const;
  const grouped = groups.flatMap(group => Object.keys(tf[group]).map(name => `${group}.${name}`));
  const all = [...names.filter(name => /^[a-z]/.test(name)), ...grouped].filter(
    name => !groups.includes(name as never) && !/^layers\.(RNN|RNNCell|Layer)$|^op$/.test(name),
  );
  expect(all).toContain('image.resizeNearestNeighbor');
  const known = new Set([...Object.keys(OPERATIONS), ...Object.values(NOT_COMPARED).flat()]);
  expect(all.filter(name => !known.has(name))).toEqual([]);
});
