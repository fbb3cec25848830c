import type { ReadTensor, TensorFile } from '../../src/checkpoint/checkpoint-file';
import { ranksToRead, type ResidualPolicy } from '../../src/core/resized-state';
import { waitingSums } from '../../src/tensorflow/optimizer-state';

/** The files of ranks, each with a sum; rank 0 has had no gradient of the second variable yet. */
const FILES = [[1, 2], [10, 20], [100, 200]].map((values, rank): TensorFile => {
  const read = (name: string, ...all: number[]): [string, ReadTensor] => {
    return [name, { name, type: 'F32', shape: [all.length], bytes: new Uint8Array(Float32Array.from(all).buffer) }];
  };
  const all = [read('sum/w', ...values), read('residual/w', 7, 7), read('sum/b', rank)];
  return { tensors: new Map(rank === 0 ? all.slice(0, 2) : all), metadata: new Map() };
}); // prettier-ignore

function sumsOf(worldSize: number, policy: ResidualPolicy | undefined, keepsSum: boolean) {
  return Array.from({ length: worldSize }, (_, rank) => {
    const resizing = { savedWorldSize: FILES.length, rank, worldSize, policy, keepsSum };
    const read = ranksToRead(resizing).map(each => FILES[each]!);
    return Object.fromEntries(waitingSums(read, resizing).map(({ name, tensor }) => [name, [...tensor.dataSync()]]));
  });
}

test.each([
  [3, undefined, false, [{ w: [1, 2] }, { w: [10, 20], b: [1] }, { w: [100, 200], b: [2] }]],
  [1, 'redistribute', false, [{ w: [37, 74], b: [1] }]], // the mean over the ranks stays the same
  [
    2,
    'redistribute',
    true,
    [
      { w: [101, 202], b: [2] },
      { w: [10, 20], b: [1] },
    ],
  ], // the sum stays the same
  [1, 'drop', false, [{ w: [0, 0] }]],
] as const)('sums of accumulated gradients in a ring of %i, %s', (worldSize, policy, keepsSum, expected) => {
  expect(sumsOf(worldSize, policy, keepsSum)).toEqual(expected);
});

test('a new rank of a larger ring has sums of 0, and the mean is preserved', () => {
  const sums = sumsOf(4, 'redistribute', false);
  expect(sums.map(({ w }) => w![0])).toEqual([4 / 3, 40 / 3, 400 / 3, 0].map(Math.fround));
});
