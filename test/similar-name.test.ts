import { similarName } from '../src/similar-name';

const NAMES = ['ranks', 'output-dir', 'master-addr', 'master-port', 'n'];

test.each([
  ['rank', 'ranks'],
  ['master-prot', 'master-port'],
  ['outputdir', 'output-dir'],
  ['ranks', 'ranks'],
])('%s means %s', (typed, meant) => {
  expect(similarName(typed, NAMES)).toBe(meant);
});

test('something else means nothing', () => {
  expect(similarName('learning-rate', NAMES)).toBeUndefined();
  expect(similarName('', ['output-dir'])).toBeUndefined();
});
