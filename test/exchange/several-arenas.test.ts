import { createHash } from 'node:crypto';
import { MAX_ARENA_BYTES, type VariableShape } from '../../src/exchange/arena-layout';
import type { Communicator } from '../../src/communicator/communicator';
import type { ExchangeResult } from '../../src/exchange/messages';
import { dgc, noCompression, type Compression } from '../../src/compression/dgc-options';
import { casesOf } from '../support/cases';
import { collectLess } from '../support/garbage';
import { random } from '../support/random';
import { cleanUpRanks, closeRing, connectRing, failureOf, startRanks } from '../support/rings';

beforeAll(collectLess);

const VARIABLES: VariableShape[] = [
  { name: 'kernel 0', shape: [64, 100] },
  { name: 'bias 0', shape: [100] },
  { name: 'kernel 1', shape: [100, 50] },
  { name: 'bias 1', shape: [50] },
  { name: 'kernel 2', shape: [50, 180] },
  { name: 'bias 2', shape: [181] },
  { name: 'kernel 3', shape: [90, 33] },
  { name: 'kernel 4', shape: [110, 80] },
];
const KERNEL_2 = 4;
const PLAIN = { variables: VARIABLES, compression: dgc({ sparsity: 0.99, warmUpEpochs: 0 }), nesterov: false };
const STEPS = 4;
const NOTHING = undefined;

/** Tensors in which one rank has a NaN, by step. */
const NAN_IN: Readonly<Record<number, number>> = { 1: 0, 3: KERNEL_2, 5: VARIABLES.length - 1 };
/** The steps in which one rank overflows, and in which only the sum of ranks does. */
const OVERFLOWS_ON_RANK_0 = 7;
const OVERFLOWS_IN_SUM = 9;

/**
 * Densities at which steps take these routes, and limits that make several arenas of the model. Between two ranks they
 * would take the sparse route at any density below 1.
 */
const ROUTES = {
  sparse: { density: 0.01, arenaBytes: 384 * 1024, arenaCount: 5 }, // more frames a rank than are sent ahead
  dense: { density: 0.95, arenaBytes: 448 * 1024, arenaCount: 5 },
  uncompressed: { density: 1, arenaBytes: 448 * 1024, arenaCount: 3 }, // without room for residuals
} as const;

interface Trial {
  readonly route: keyof typeof ROUTES;
  readonly steps?: number;
  /** Without it, DGC. */
  readonly compression?: Compression;
  readonly momentumFactor?: (step: number) => number;
  /**
   * The gradients are multiples of it. With 1/16, the default, no sum of ranks rounds, so its order does not matter.
   */
  readonly unit?: number;
  /** Spoils a gradient of a rank, and returns the number that the rank then gives for it. */
  readonly spoil?: (rank: number, step: number, gradient: (variable: number) => Float32Array) => number | undefined;
}

/** What a rank saw. Arrays are hashed. */
interface Run {
  readonly nonFinite: ExchangeResult['nonFinite'][];
  /** Hashes, of every step and variable. */
  readonly updates: string[];
  /** At the end. */
  readonly momenta: string[];
  readonly residuals: string[];
  readonly denseBytes: number;
}

const hashOf = (array: Float32Array) => createHash('sha1').update(array).digest('hex');

function fill(gradient: Float32Array, unit: number, seed: number): void {
  const next = random(seed);
  gradient.forEach((_, i) => (gradient[i] = Math.round((next() - 0.5) * 2 ** 13) * unit));
}

/**
 * The same steps on all ranks, in as many arenas as the limit makes. Returns what each saw, and the bytes that each
 * sent.
 */
async function runAll(ring: readonly Communicator[], trial: Trial, arenaBytes: number) {
  const { route, steps = STEPS, momentumFactor = () => 0.5, unit = 1 / 16, spoil = () => NOTHING } = trial;
  const { density } = ROUTES[route];
  const values = route === 'sparse' ? 'float16' : 'float32';
  const { compression = dgc({ sparsity: 1 - density, warmUpEpochs: 0, values }) } = trial;
  const variables = VARIABLES;
  let arenaCount = 0;
  const ranks = await Promise.all(
    ring.map(async (communicator, rank) => {
      const fixed = route === 'uncompressed' ? undefined : route;
      const exchange = communicator.openExchange({ variables, compression, nesterov: true, arenaBytes, route: fixed });
      arenaCount = exchange.plan.arenas.length;
      const all = (what: 'gradient' | 'momentum' | 'residual') => variables.map((_, i) => hashOf(exchange[what](i)));
      const results: ExchangeResult[] = [];
      const updates: string[] = [];
      for (let step = 0; step < steps; step++) {
        variables.forEach((_, i) => fill(exchange.gradient(i), unit, 1 + i + 100 * rank + 1000 * step));
        const nonFiniteTensor = spoil(rank, step, variable => exchange.gradient(variable));
        const factor = momentumFactor(step);
        const result = await exchange.start({ density, momentumFactor: factor, sumOfSquares: 1, nonFiniteTensor })
          .promise;
        results.push(result);
        if (result.nonFinite === undefined) updates.push(...all('gradient'));
      }
      const [momenta, residuals] = [all('momentum'), all('residual')];
      exchange.close();
      const nonFinite = results.map(result => result.nonFinite);
      const run: Run = { nonFinite, updates, momenta, residuals, denseBytes: results[0]!.denseBytes };
      return { run, bytesSent: results.reduce((sum, result) => sum + result.bytesSent, 0) };
    }),
  );
  return { arenaCount, runs: ranks.map(({ run }) => run), bytesSent: ranks.map(({ bytesSent }) => bytesSent) };
}

/** That several arenas give the same bits as one, and all ranks the same updates. */
async function expectSame(ring: readonly Communicator[], trial: Trial) {
  const one = await runAll(ring, trial, MAX_ARENA_BYTES);
  const several = await runAll(ring, trial, ROUTES[trial.route].arenaBytes);
  expect([one.arenaCount, several.arenaCount]).toEqual([1, ROUTES[trial.route].arenaCount]);
  expect(several.runs).toEqual(one.runs);
  for (const { updates } of several.runs) expect(updates).toEqual(several.runs[0]!.updates);
  return { one, several };
}

afterAll(cleanUpRanks);

describe.each(casesOf([3], [1]))('a ring of %i', worldSize => {
  let ring: Communicator[];
  beforeAll(async () => {
    ring = await connectRing(worldSize);
  });
  afterAll(() => closeRing(ring));

  test('sparse route: the same updates, u and v as with one arena, bit for bit', async () => {
    const { one, several } = await expectSame(ring, { route: 'sparse', unit: 0.1 });
    several.bytesSent.forEach((bytes, rank) => {
      expect(bytes).toBeLessThan(one.bytesSent[rank]! + STEPS * worldSize * 1500); // some headers more
      if (worldSize > 1) expect(bytes).toBeLessThan((STEPS * one.runs[0]!.denseBytes) / 10);
    });
  });

  test('dense route too', async () => {
    // From three ranks on each chunk is summed in another order, and with the arenas the chunks are others.
    const { several } = await expectSame(ring, { route: 'dense', unit: worldSize < 3 ? 0.1 : 1 / 16 });
    const { denseBytes } = several.runs[0]!;
    for (const bytes of several.bytesSent)
      expect(bytes / (STEPS * denseBytes || 1)).toBeCloseTo(worldSize > 1 ? worldSize / 2 : 0, 1); // small arrays are gathered
  });

  test('without compression, the mean of all arenas is clipped to one norm', async () => {
    const unit = worldSize < 3 ? 0.1 : 1 / 16;
    const updates = async (compression: Compression) => {
      const { several } = await expectSame(ring, { route: 'uncompressed', unit, compression });
      return several.runs[0]!.updates;
    };
    expect(await updates(noCompression({ clipNorm: 5 }))).not.toEqual(await updates(noCompression()));
  });

  describe.each(['sparse', 'dense'] as const)('the %s way, with steps that are spoilt between good ones', way => {
    const culprit = worldSize - 1;
    let told: readonly ExchangeResult['nonFinite'][][];
    beforeAll(async () => {
      const spoil: Trial['spoil'] = (rank, step, gradient) => {
        const tensor = NAN_IN[step];
        if (tensor !== undefined && rank === culprit) {
          gradient(tensor)[3] = NaN;
          return tensor;
        }
        if (step === OVERFLOWS_ON_RANK_0 && rank === 0) gradient(KERNEL_2).fill(3e38);
        if (step === OVERFLOWS_IN_SUM) gradient(KERNEL_2).fill(2e38);
        return NOTHING;
      };
      const momentumFactor = (step: number) => (step === OVERFLOWS_IN_SUM ? 0 : 0.5);
      const { several } = await expectSame(ring, { route: way, steps: OVERFLOWS_IN_SUM + 1, spoil, momentumFactor });
      told = several.runs.map(({ nonFinite }) => nonFinite);
    });

    test.each(Object.entries(NAN_IN))('NaN, in step %s in tensor %i of one rank, is told to all', (step, tensor) => {
      for (const nonFinite of told) expect(nonFinite[Number(step)]).toEqual({ rank: culprit, tensor });
    });

    test('what overflows on one rank, when it is accumulated', () => {
      for (const nonFinite of told) expect(nonFinite[OVERFLOWS_ON_RANK_0]).toEqual({ rank: 0, tensor: KERNEL_2 });
    });

    test('what overflows in the sum of ranks only', () => {
      const expected = worldSize === 1 ? undefined : { rank: undefined, tensor: KERNEL_2 };
      for (const nonFinite of told) expect(nonFinite[OVERFLOWS_IN_SUM]).toEqual(expected);
    });

    test('the steps between are good', () => {
      for (const nonFinite of told) for (const step of [0, 2, 4, 6, 8]) expect(nonFinite[step]).toBeUndefined();
    });
  });

  test('a variable that fits in no arena is an error on all ranks, and the ring goes on', async () => {
    const variables = [...VARIABLES, { name: 'too large', shape: [200, 200] }];
    const { arenaBytes } = ROUTES.sparse;
    for (const communicator of ring) {
      const open = () => communicator.openExchange({ ...PLAIN, variables, arenaBytes });
      expect(open).toThrow(expect.objectContaining({ code: 'ERR_OUT_OF_MEMORY', details: { variable: 'too large' } }));
    }
    await Promise.all(ring.map(communicator => communicator.barrier()));
  });

  test('a closed exchange is a coded error, and may be closed again', () => {
    const exchange = ring[0]!.openExchange(PLAIN);
    exchange.close();
    exchange.close();
    expect(() => exchange.gradient(0)).toThrow(expect.objectContaining({ code: 'ERR_CLOSED' }));
  });
});

test('ranks that cut their arenas at different places are told so', async () => {
  const ring = await connectRing(2);
  const failures = await Promise.all(
    ring.map((communicator, rank) => {
      const { arenaBytes } = rank === 0 ? ROUTES.sparse : ROUTES.dense;
      const exchange = communicator.openExchange({ ...PLAIN, arenaBytes });
      return failureOf(exchange.start({ density: 0.01, momentumFactor: 0, sumOfSquares: 1 }).promise);
    }),
  );
  for (const { code } of failures) expect(code).toBe('ERR_MODEL_MISMATCH');
  await closeRing(ring);
});

test('a closed exchange gives its memory back, on both threads', async () => {
  const source = `
    const ring = await Communicator.connect();
    const variables = Array.from({ length: 4 }, (_, i) => ({ name: 'v' + i, shape: [1000, 1250] }));
    let peak = 0; // resourceUsage().maxRSS would begin with the peak of the process that started this one
    for (let round = 0; round < 10; round++) {
      // 60 MB in two arenas
      const exchange = ring.openExchange({ variables, compression: { kind: 'none' }, nesterov: false, arenaBytes: 40e6 });
      for (const i of variables.keys()) {
        for (const what of ['gradient', 'momentum', 'residual']) exchange[what](i).fill(1);
      }
      await exchange.start({ density: 1, momentumFactor: 0.5, sumOfSquares: 1 }).promise;
      peak = Math.max(peak, process.memoryUsage.rss());
      exchange.close();
    }
    say(String(peak));
    await ring.close();`;
  const [rank] = await startRanks(1, source);
  const { stdout, stderr } = await rank!.ended;
  expect(stderr).toBe('');
  expect(Number(stdout)).toBeGreaterThan(60e6);
  expect(Number(stdout)).toBeLessThan(400e6);
});
