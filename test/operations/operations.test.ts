import * as tf from '@tensorflow/tfjs';
import { readFileSync } from 'node:fs';
import { pageOf } from '../../scripts/operations/write-docs';
import { readPage } from '../support/doc-pages';
import { committed, wrong } from './measurements';
import { NOT_COMPARED, OPERATIONS } from './operations';

// What is measured here: test/slow/operations.test.ts.
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
