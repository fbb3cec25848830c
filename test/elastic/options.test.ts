import { resolveConnectOptions } from '../../src/rendezvous/connect-options';
import { planLaunch } from '../../src/launcher/launch-options';
import { coded } from '../support/coded';

const plan = (options: object) =>
  planLaunch({ ranks: 4, script: `${__dirname}/fixtures/train.js`, ...options }).elastic;

test.each([
  [{}, undefined],
  [{ min: 2 }, { min: 2, maxRestarts: 0 }],
  [{ maxRestarts: 3 }, { min: 4, maxRestarts: 3 }],
  [
    { min: 1, maxRestarts: 0 },
    { min: 1, maxRestarts: 0 },
  ],
])('%j means %j', (options, expected) => {
  expect(plan(options)).toEqual(expected);
});

test.each([
  [{ min: 5 }, /min is 5; it must be a whole number from 1 to 4, because ranks is 4\./],
  [{ min: 0 }, /min is 0/],
  [{ maxRestarts: -1 }, /maxRestarts is -1/],
  [{ min: 2, nodes: 2, masterAddr: '10.0.0.5' }, /nodes is 2, but an elastic run \(min, maxRestarts\) has one node\./],
])('%j is refused', (options, words) => {
  expect(() => plan(options)).toThrow(coded(words));
});

const RANK = { RANK: '1', WORLD_SIZE: '4' };

test.each([
  [{}, undefined],
  [{ GRADRING_ELASTIC: '' }, undefined],
  [{ GRADRING_ELASTIC: 'member' }, 'member'],
  [{ GRADRING_ELASTIC: 'newcomer' }, 'newcomer'],
])('%j: elastic is %s', (env, elastic) => {
  expect(resolveConnectOptions({}, { ...RANK, ...env }).elastic).toBe(elastic);
});

test('a ring that the program describes itself is not that of the launcher', () => {
  const env = { ...RANK, GRADRING_ELASTIC: 'member' };
  expect(resolveConnectOptions({ rank: 0, worldSize: 2 }, env).elastic).toBeUndefined();
});

test('what is neither is refused', () => {
  expect(() => resolveConnectOptions({}, { ...RANK, GRADRING_ELASTIC: 'yes' })).toThrow(
    coded(/GRADRING_ELASTIC is 'yes'/, 'ERR_INVALID_ENVIRONMENT'),
  );
});
