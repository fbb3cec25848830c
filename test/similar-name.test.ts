import { similarName } from '../src/similar-name';

const NAMES = ['ranks', 'output-dir', 'master-addr', 'master-port', 'nodes', 'learningRateWarmUp', 'n'];

test.each([
  ['rank', 'ranks'],
  ['master-prot', 'master-port'],
  ['outputdir', 'output-dir'],
  ['ranks', 'ranks'],
  ['nodse', 'nodes'],
  ['ondes', 'nodes'],
  ['rnaks', 'ranks'],
  ['learningRateWarmup', 'learningRateWarmUp'],
  ['LEARNINGRATEWARMUP', 'learningRateWarmUp'],
  ['Nodes', 'nodes'],
])('%s means %s', (typed, meant) => {
  expect(similarName(typed, NAMES)).toBe(meant);
});

test.each(['learning-rate', '', 'x', 'nodesets', 'donse'])('%j means nothing', typed => {
  expect(similarName(typed, NAMES)).toBeUndefined();
});

test.each([
  { typed: 'bin', names: ['min', 'bit'], meant: 'bit', because: 'it begins with the same letter' },
  { typed: 'tap', names: ['taps', 'tag'], meant: 'tag', because: 'it is as long' },
  { typed: 'rot', names: ['run', 'row', 'rod'], meant: 'row', because: 'it is the first in the list' },
  { typed: 'swpa', names: ['swaps', 'swap'], meant: 'swap', because: 'it has fewer edits' },
])('of several, $typed means $meant, as $because', ({ typed, names, meant }) => {
  expect(similarName(typed, names)).toBe(meant);
});
