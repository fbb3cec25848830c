import {
  customCompression,
  lowRank,
  oneBit,
  powerSgd,
  qsgd,
} from '../../src/compression/compressors/custom-compression';
import { describeCompression } from '../../src/compression/describe-compression';
import { type Compression, dgc, gradientDropping, noCompression } from '../../src/compression/dgc-options';

/** All that users may call, in the scope in which the words are evaluated. */
const CALLS = { customCompression, dgc, gradientDropping, lowRank, noCompression, oneBit, powerSgd, qsgd };

test.each<[Compression, string]>([
  [dgc(), 'dgc()'],
  [dgc({ sparsity: 0.9 }), 'dgc({ sparsity: 0.9 })'],
  [dgc({ route: 'scatter' }), "dgc({ route: 'scatter' })"],
  [dgc({ route: 'any' }), "dgc({ route: 'any' })"],
  [dgc({ steps: 500, values: 'int8' }), "dgc({ steps: 500, values: 'int8' })"],
  [dgc({ sparsity: 0.99, warmUpSteps: 30 }), 'dgc({ sparsity: 0.99, warmUpSteps: 30 })'],
  [dgc({ sparsity: 0.99, warmUpEpochs: 0 }), 'dgc({ sparsity: 0.99, warmUpEpochs: 0 })'],
  [dgc({ masking: false, clipNorm: 5 }), 'dgc({ clipNorm: 5, masking: false })'],
  [dgc({ route: 'sparse', perHost: true }), "dgc({ route: 'sparse', perHost: true })"],
  [dgc({ masking: true, rescaleResiduals: true }), 'dgc({ rescaleResiduals: true, masking: true })'],
  [dgc({ sparsity: 0.9, momentumCorrection: false }), 'dgc({ sparsity: 0.9, momentumCorrection: false })'],
  [
    gradientDropping(),
    "dgc({ sparsity: 0.99, warmUpEpochs: 0, momentumCorrection: false, values: 'float32' })", // which is the same
  ],
  [noCompression(), 'noCompression()'],
  [noCompression({ clipNorm: 0.25 }), 'noCompression({ clipNorm: 0.25 })'],
  [oneBit(), 'oneBit()'],
  [qsgd({ levels: 4, seed: 7 }), 'qsgd({ levels: 4, bucket: 512, seed: 7 })'],
  [powerSgd({ rank: 4 }), 'powerSgd({ rank: 4 })'],
  [lowRank({ step: 1 }), 'lowRank({ step: 1 })'],
  [lowRank({ rank: 8, clipAt: 'rank' }), "lowRank({ rank: 8, clipAt: 'rank' })"],
  [qsgd({ clipNorm: 1, clipAt: 'mean' }), "qsgd({ levels: 16, bucket: 512, clipNorm: 1, clipAt: 'mean' })"],
  [dgc({ clipNorm: 1, clipAt: 'mean' }), "dgc({ clipNorm: 1, clipAt: 'mean' })"],
  [
    customCompression('/a/sign.js', { options: { scale: [1, { deep: 2 }] }, denseBelow: 1 }),
    "customCompression('/a/sign.js', { options: { scale: [ 1, { deep: 2 } ] }, denseBelow: 1 })",
  ],
])('a compression in words makes the same one', (compression, words) => {
  const received = JSON.parse(JSON.stringify(compression)) as Compression; // as it comes from another rank
  expect(describeCompression(received)).toBe(words);
  const names = Object.keys(CALLS);
  const made = new Function(...names, `return ${words}`)(...Object.values(CALLS)) as Compression;
  expect(made).toEqual(compression);
});
