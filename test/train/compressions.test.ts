import { COMPRESSION_OPTION, compressionOf } from '../../scripts/train/compressions';
import { describeCompression } from '../../src/compression/describe-compression';

const WORDS = {
  dgc: /^dgc\({ sparsity: 0\.999 }\)$/,
  none: /^noCompression\(\)$/,
  'gradient-dropping': /^dgc\({ sparsity: 0\.999, .*momentumCorrection: false/,
  'one-bit': /^oneBit\(/,
  'tern-grad': /^ternGrad\(/,
  qsgd: /^qsgd\(/,
  'power-sgd': /^powerSgd\(/,
  'low-rank': /^lowRank\(/,
};

test.each(Object.entries(WORDS))('--compression %s of the training programs', (name, words) => {
  expect(describeCompression(compressionOf(name))).toMatch(words);
});

test('these are all', () => {
  expect(Object.keys(WORDS)).toEqual(COMPRESSION_OPTION.choices);
});
