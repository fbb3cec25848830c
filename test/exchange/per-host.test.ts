import { CollectiveCall, SCRATCH_BYTES } from '../../src/collectives/collective-call';
import { dgc, type DgcOptions } from '../../src/compression/dgc-options';
import { ExchangeHandle } from '../../src/exchange/exchange-handle';
import { GradientExchange, settingsOf } from '../../src/exchange/gradient-exchange';
import type { ExchangeResult } from '../../src/exchange/messages';
import { hostRunsOf } from '../../src/transport/ring-place';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { casesWhere } from '../support/cases';
import { runnerOf } from '../support/runners';
import { LANE_KINDS, openTransports } from '../support/transports';

// The gradients are small multiples of 1/16, and ranks and hosts are powers of two: no sum rounds, whatever its order.
const VARIABLES = [
  { name: 'matrix', shape: [64, 64] },
  { name: 'bias', shape: [70] },
];
const LENGTHS = [4096, 70];
const STEPS = 4;

afterAll(closeAllSockets);

interface Rank {
  readonly updates: number[][][];
  readonly residual: number[];
  readonly results: ExchangeResult[];
}

const gradientOf = (rank: number, step: number, variable: number) =>
  Float32Array.from(
    { length: LENGTHS[variable]! },
    (_, i) => (((i * 7919 + rank * 104_729 + step * 1299 + variable) % 257) - 128) / 16,
  );

/** Sums of arrays of one length. */
const sumOf = (arrays: readonly ArrayLike<number>[]) =>
  Array.from(arrays[0]!, (_, i) => arrays.reduce((sum, array) => sum + array[i]!, 0));

/** The gradient of a host of two ranks: the mean of theirs. */
const meanOf = (host: number, step: number, variable: number) =>
  Float32Array.from(sumOf([0, 1].map(i => gradientOf(2 * host + i, step, variable))), sum => sum / 2);

/** Runs some steps in a ring of ranks on these hosts. */
async function train(
  hosts: readonly string[],
  options: DgcOptions,
  {
    gradient = gradientOf,
    held = () => 0,
    momentumFactor = 0.5,
    densityAt = () => 0.1,
    route,
    ...links
  }: {
    readonly gradient?: typeof gradientOf;
    /** What a rank has held back before, of each element of the matrix. */
    readonly held?: (rank: number) => number;
    readonly momentumFactor?: number;
    readonly densityAt?: (step: number) => number;
    readonly route?: 'sparse' | 'mixed' | 'dense';
  } & Parameters<typeof openTransports>[1] = {},
): Promise<Rank[]> {
  const { ring, failures, close } = await openTransports(hosts.length, { ...links, hosts });
  const compression = dgc({ sparsity: 0.9, warmUpEpochs: 0, values: 'float32', ...options });
  const ranks = await Promise.all(
    ring.map(async (transport, rank): Promise<Rank> => {
      const line = { start: jest.fn(), conclude: jest.fn(), close: jest.fn() };
      const handle = new ExchangeHandle({ variables: VARIABLES, compression, nesterov: false, route }, line);
      const exchange = new GradientExchange(transport, handle.plan);
      const { memory, data: scratch, kernels } = runnerOf(transport, SCRATCH_BYTES);
      const context = { transport, kernels, memory, scratch };
      handle.residual(0).fill(held(rank));
      const updates: number[][][] = [];
      const results: ExchangeResult[] = [];
      for (let step = 0; step < STEPS; step++) {
        let sumOfSquares = 0;
        VARIABLES.forEach((_, i) => {
          handle.gradient(i).set(gradient(rank, step, i));
          sumOfSquares += handle.sumOfSquares(i);
        });
        const nonFinite = VARIABLES.findIndex((_, i) => !handle.gradient(i).every(Number.isFinite));
        const input = {
          ...{ step, density: densityAt(step), momentumFactor, sumOfSquares },
          ...(nonFinite >= 0 && { nonFiniteTensor: nonFinite }),
        };
        const call = new CollectiveCall(context, step, exchange.fingerprint(settingsOf(input)), transport.links);
        results.push(await exchange.run(call, input));
        updates.push(VARIABLES.map((_, i) => [...handle.gradient(i)]));
      }
      return { updates, results, residual: [...handle.residual(0)] };
    }),
  );
  await close();
  expect(failures).toEqual([]);
  return ranks;
}

/** Compares many numbers. Jest would take minutes to show how they differ. */
function expectSame(actual: readonly unknown[], expected: readonly unknown[]): void {
  const [all, due] = [actual, expected].map(numbers => numbers.flat(Infinity)) as [number[], number[]];
  const wrong = [...due.keys()].filter(i => !Object.is(all[i], due[i]));
  expect({ count: all.length, wrong: wrong.length, first: all[wrong[0]!] }).toEqual({
    count: due.length,
    wrong: 0,
    first: undefined,
  });
}

test('ranks of one host that are beside each other are a run', () => {
  expect(hostRunsOf(['a', 'a', 'b', 'c', 'c', 'a'])).toEqual([
    { first: 0, last: 1 },
    { first: 2, last: 2 },
    { first: 3, last: 4 },
    { first: 5, last: 5 },
  ]);
  expect(hostRunsOf(['a'])).toEqual([{ first: 0, last: 0 }]);
});

/** Two peers, by route. */
const peers = new Map<string, Promise<Rank[]>>();
const LANES = casesWhere(kind => kind === undefined || kind === 'TCP', [undefined, ...LANE_KINDS]);

describe.each(LANES)('beside links with lanes of %s', lanes => {
  test.each(['sparse', 'mixed', 'dense'] as const)(
    'two hosts with two ranks each do what two peers do with the means of their gradients, by the route %s',
    async route => {
      const options = { clipNorm: 40 };
      const four = await train(['a', 'a', 'b', 'b'], { ...options, perHost: true }, { lanes, route });
      if (!peers.has(route)) peers.set(route, train(['a', 'b'], options, { route, gradient: meanOf }));
      const two = await peers.get(route)!;
      for (const { updates } of four) expectSame(updates, two[0]!.updates);
      expect(four.map(({ residual }) => residual.some(each => each !== 0))).toEqual([false, true, false, true]);
    },
  );
});

test('after steps that sent everything, the momentum of a host is that of its ranks together', async () => {
  const densityAt = (step: number) => (step === 0 ? 1 : 0.1);
  const four = await train(['a', 'a', 'b', 'b'], { perHost: true }, { densityAt });
  const two = await train(['a', 'b'], {}, { densityAt, gradient: meanOf });
  for (const { updates } of four) expectSame(updates, two[0]!.updates);
});

test('a step that sends everything clips the gradients of ranks, as without perHost', async () => {
  const densityAt = () => 1;
  const [own, all] = await Promise.all(
    [true, false].map(perHost => train(['a', 'a', 'b', 'b'], { perHost, clipNorm: 5 }, { densityAt })),
  );
  expectSame(own![0]!.updates, all![0]!.updates);
});

test.each([
  ['hosts of several sizes', ['a', 'b', 'b', 'b']],
  ['one host', ['a', 'a', 'a', 'a']],
  ['a rank on each host', ['a', 'b', 'c', 'd']],
  ['a host whose ranks are apart', ['a', 'b', 'a', 'a']],
])('nothing is lost or counted twice: %s', async (_, hosts) => {
  const held = (rank: number) => rank; // as after a checkpoint of ranks in other places
  const ranks = await train(hosts, { perHost: true }, { momentumFactor: 0, held });
  for (const { updates } of ranks) expectSame(updates, ranks[0]!.updates);
  const steps = [...Array(STEPS).keys()];
  const given = hosts.flatMap((_, rank) => [
    ...steps.map(step => gradientOf(rank, step, 0)),
    Array<number>(LENGTHS[0]!).fill(held(rank)),
  ]);
  const applied = ranks[0]!.updates.map(([matrix]) => matrix!.map(each => hosts.length * each));
  const last = hostRunsOf(hosts).map(run => run.last);
  ranks.forEach(({ residual }, rank) => expect(residual.some(each => each !== 0)).toBe(last.includes(rank)));
  expectSame(sumOf([...applied, ...ranks.map(({ residual }) => residual)]), sumOf(given));
});

test('a rank of each host sends its gradient between hosts, not each rank', async () => {
  const hosts = ['a', 'a', 'a', 'a', 'b', 'b', 'b', 'b'];
  const sent = async (perHost: boolean) => {
    const ranks = await train(hosts, { perHost }, { route: 'sparse' });
    return ranks[7]!.results.at(-1)!.bytesSent; // it is the last of its run, and passes on to the other host
  };
  const [each, all] = [await sent(true), await sent(false)];
  expect(all / each).toBeGreaterThan(2.5);
  expect(all / each).toBeLessThan(7);
});

test.each([0, 1])(
  'a gradient of rank %d that is not finite is told by its rank, and no rank applies the step',
  async bad => {
    const gradient = (rank: number, step: number, variable: number) => {
      const values = gradientOf(rank, step, variable);
      if (rank === bad && step === 1 && variable === 1) values[3] = NaN;
      return values;
    };
    const ranks = await train(['a', 'a', 'b', 'b'], { perHost: true }, { gradient });
    for (const { results } of ranks) {
      expect(results.map(({ nonFinite }) => nonFinite)).toEqual([
        undefined,
        { rank: bad, tensor: 1 },
        undefined,
        undefined,
      ]);
    }
    for (const { updates } of ranks) expectSame(updates.slice(2), ranks[0]!.updates.slice(2));
  },
);
