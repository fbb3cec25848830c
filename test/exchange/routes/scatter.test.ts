import type { Communicator } from '../../../src/communicator/communicator';
import { dgc, type DgcOptions } from '../../../src/compression/dgc-options';
import type { ValueFormat } from '../../../src/compression/value-format';
import type { VariableShape } from '../../../src/exchange/arena-layout';
import type { LinkCost } from '../../../src/exchange/link-cost';
import type { ExchangeResult, ExchangeStep } from '../../../src/exchange/messages';
import { casesOf, quickTest, slowTest } from '../../support/cases';
import { collectLess } from '../../support/garbage';
import { random } from '../../support/random';
import { closeRing, connectRing } from '../../support/rings';

beforeAll(collectLess);

const VARIABLES = [
  { name: 'bias', shape: [70] },
  { name: 'matrix', shape: [60, 50] },
  { name: 'kernel', shape: [3, 3, 20, 11] },
];
const STEP: ExchangeStep = { density: 0.05, momentumFactor: 0, sumOfSquares: 1 };

/** One ring of each size serves all tests. */
const rings = new Map<number, Promise<Communicator[]>>();
afterAll(async () => Promise.all([...rings.values()].map(async ring => closeRing(await ring))));

/** Steps of a ring on this route, with these gradients. */
async function run(
  worldSize: number,
  values: ValueFormat,
  gradientAt: (rank: number, step: number, variable: number, at: number) => number,
  {
    steps = 1,
    variables = VARIABLES,
    route = 'scatter',
    more = () => ({}),
  }: {
    steps?: number;
    variables?: readonly VariableShape[];
    route?: DgcOptions['route'];
    more?: (rank: number, step: number) => Partial<ExchangeStep>;
  } = {},
) {
  if (!rings.has(worldSize)) rings.set(worldSize, connectRing(worldSize));
  const ring = await rings.get(worldSize)!;
  const compression = dgc({ sparsity: 0.95, warmUpEpochs: 0, values, denseBelow: 100, route });
  return Promise.all(
    ring.map(async (communicator, rank) => {
      const exchange = communicator.openExchange({ variables, compression, nesterov: false });
      const updates: number[][][] = [];
      const results: ExchangeResult[] = [];
      for (let step = 0; step < steps; step++) {
        for (const i of variables.keys()) {
          const gradient = exchange.gradient(i);
          for (const at of gradient.keys()) gradient[at] = gradientAt(rank, step, i, at);
        }
        results.push(await exchange.start({ ...STEP, ...more(rank, step) }).promise);
        updates.push([...variables.keys()].map(i => [...exchange.gradient(i)]));
      }
      const residuals = [...variables.keys()].map(i => [...exchange.residual(i)]);
      const momenta = [...variables.keys()].map(i => [...exchange.momentum(i)]);
      exchange.close();
      return { updates, results, residuals, momenta };
    }),
  );
}

const RUNS = casesOf<readonly [ValueFormat, number]>(
  [
    ['float32', 3],
    ['log4', 2],
  ],
  [
    ['float32', 1],
    ['float32', 2],
    ['float32', 5],
    ['float32', 6],
    ['bfloat16', 2],
    ['int8', 3],
    ['log4', 1],
  ],
);

test.each(RUNS)(
  'in %s, %i ranks apply or hold back every part of every gradient, all alike',
  async (values, worldSize) => {
    const steps = 4;
    const next = random(worldSize);
    const most = 3000; // elements of a variable
    const drawn = Float64Array.from({ length: worldSize * steps * VARIABLES.length * most }, () => {
      return (next() - 0.5) * 10 ** (4 * next());
    });
    const gradientAt = (rank: number, step: number, variable: number, at: number) =>
      drawn[((rank * steps + step) * VARIABLES.length + variable) * most + at]!;
    const ranks = await run(worldSize, values, gradientAt, { steps });
    for (const { updates, results } of ranks) {
      expect(updates).toEqual(ranks[0]!.updates);
      expect(results.map(({ route }) => route)).toEqual(new Array(steps).fill('scatter'));
    }
    for (const [i, { shape }] of VARIABLES.entries()) {
      const length = shape.reduce((product, size) => product * size, 1);
      let [applied, worst] = [0, 0];
      for (let at = 0; at < length; at++) {
        const all = [...Array(worldSize).keys()];
        const given = all.flatMap(rank => Array.from({ length: steps }, (_, step) => gradientAt(rank, step, i, at)));
        const held = all.map(rank => ranks[rank]!.residuals[i]![at]!);
        const updates = ranks[0]!.updates.map(step => worldSize * step[i]![at]!);
        const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);
        const scale = Math.max(...given.map(Math.abs));
        worst = Math.max(worst, Math.abs(sum(given) - sum(held) - sum(updates)) / (scale * steps * worldSize));
        applied += updates.filter(update => update !== 0).length;
      }
      expect(worst).toBeLessThan(1e-5);
      if (i > 0) expect(applied).toBeLessThanOrEqual(steps * (0.05 * length + 2 * worldSize));
    }
  },
);

slowTest('what a rank sends does not grow with the ranks', async () => {
  const next = random(9);
  const variables = [{ name: 'matrix', shape: [200, 200] }];
  const bytesOf = async (worldSize: number) => {
    const ranks = await run(worldSize, 'float32', () => next() - 0.5, { variables });
    return ranks.reduce((sum, { results }) => sum + results[0]!.bytesSent, 0) / worldSize;
  };
  expect(await bytesOf(6)).toBeLessThan(1.3 * (await bytesOf(3)));
});

describe('with the route `any`', () => {
  const near: LinkCost = { byteNs: 1e4, hopNs: 1 };
  const far: LinkCost = { byteNs: 1, hopNs: 1e9 };

  quickTest.each([
    [1, near, 'sparse'],
    [2, near, 'sparse'],
    [3, near, 'scatter'],
    [3, far, 'sparse'],
  ] as const)('%i ranks with links of %j do what they do with the route %s', async (worldSize, links, route) => {
    const drawn = Float64Array.from({ length: 5 * worldSize * 3000 }, random(8));
    const gradientAt = (rank: number, _: number, variable: number, at: number) =>
      drawn[(5 * rank + variable) * 3000 + at]! - 0.5;
    const options = { steps: 3, variables: VARIABLES.slice(1), more: () => ({ links }) };
    const chosen = await run(worldSize, 'float16', gradientAt, { ...options, route: 'any' });
    const named = await run(worldSize, 'float16', gradientAt, { ...options, route });
    for (const [rank, { results, updates }] of chosen.entries()) {
      expect(results.map(result => result.route)).toEqual([route, route, route]);
      expect(updates).toEqual(named[rank]!.updates);
    }
  });
});

quickTest('a gradient that is not finite is told to all, and nothing is lost', async () => {
  const gradientAt = (rank: number, _: number, variable: number, at: number) => rank + variable + at / 100;
  const ranks = await run(3, 'float32', gradientAt, { more: rank => (rank === 2 ? { nonFiniteTensor: 1 } : {}) });
  for (const [rank, { results, residuals }] of ranks.entries()) {
    expect(results[0]!.nonFinite).toEqual({ rank: 2, tensor: 1 });
    // Rank 2 has taken nothing of a gradient that is not finite.
    const held = Array.from({ length: 3000 }, (_, at) => (rank === 2 ? 0 : Math.fround(rank + 1 + at / 100)));
    expect(residuals[1]).toEqual(held);
  }
});

quickTest('an element loses its momentum if it was applied, and keeps it if it was only selected', async () => {
  const next = random(5);
  const drawn = Array.from({ length: 3 * 3000 }, () => next() - 0.5);
  const gradientAt = (rank: number, _: number, variable: number, at: number) =>
    variable === 1 ? drawn[3000 * rank + at]! : 0;
  const ranks = await run(3, 'float32', gradientAt, { more: () => ({ momentumFactor: 0.9 }) });
  let masked = 0;
  for (const [rank, { updates, momenta }] of ranks.entries()) {
    for (const [at, update] of updates[0]![1]!.entries()) {
      const own = Math.fround(gradientAt(rank, 0, 1, at));
      if (update === 0) expect(momenta[1]![at]).toBe(own);
      else expect([0, own]).toContain(momenta[1]![at]);
      masked += momenta[1]![at] === 0 ? 1 : 0;
    }
  }
  expect(masked).toBeGreaterThan(100);
});

quickTest.each([
  ['the sum', [3e38, 3e38, 3e38]],
  ['a sum on the way', [3e38, 3e38, -3e38]], // in the chunk of this element ranks 0 and 1 are added first
  ['no sum', [3e38, -3e38, 1e38]],
])('if %s overflows, all are told, and the tensor is begun anew', async (what, values) => {
  const ranks = await run(3, 'float32', (rank, _, variable, at) => (variable === 1 && at === 7 ? values[rank]! : 0));
  const overflows = ranks.map(({ results }) => results[0]!.nonFinite);
  const expected = what === 'no sum' ? undefined : { rank: undefined, tensor: 1 };
  expect(overflows).toEqual([expected, expected, expected]);
  if (expected === undefined) return;
  for (const { residuals } of ranks) expect(residuals[1]!.every(value => value === 0)).toBe(true);
});
