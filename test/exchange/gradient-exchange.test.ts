import { Communicator } from '../../src/communicator/communicator';
import type { VariableShape } from '../../src/exchange/arena-layout';
import type { LinkCost } from '../../src/exchange/link-cost';
import type { ExchangeResult, ExchangeStep } from '../../src/exchange/messages';
import { powerSgd } from '../../src/compression/compressors/custom-compression';
import { type Compression, dgc, ENTRY_ROUTES, noCompression } from '../../src/compression/dgc-options';
import { VALUE_FORMATS } from '../../src/compression/value-format';
import { casesOf, casesWhere } from '../support/cases';
import { collectLess } from '../support/garbage';
import { random } from '../support/random';
import { closeRing, connectRing, failureOf, freePort } from '../support/rings';

beforeAll(collectLess);

// The gradients are small multiples of 1/16, the momentum is 1/2 and the ranks are four: no sum ever rounds, so its
// order, in which the two routes differ, does not matter, and the results must be the same bits.
const RANKS = 4;
const STEPS = 4;
const ELEMENTS = 4096;
const MATRIX: VariableShape = { name: 'matrix', shape: [64, 64] };
/** Dense, and so large that its bytes make the dense ring cheaper for all. */
const HEAVY: VariableShape = { name: 'heavy', shape: [50_000] };
const COMPRESSION = dgc({ sparsity: 0.9, warmUpEpochs: 0, values: 'float32' });

let ring: Communicator[];

beforeAll(async () => {
  const masterPort = await freePort();
  const place = {
    worldSize: RANKS,
    masterAddr: '127.0.0.1',
    masterPort,
    runId: 'exchange',
  } as const;
  ring = await Promise.all(Array.from({ length: RANKS }, (_, rank) => Communicator.connect({ ...place, rank })));
});

afterAll(() => Promise.all(ring.map(communicator => communicator.close())));

interface Rank {
  readonly updates: number[][];
  readonly momentum: number[];
  readonly residual: number[];
  readonly results: readonly ExchangeResult[];
}

const gradientOf = (rank: number, step: number) =>
  Float32Array.from({ length: ELEMENTS }, (_, i) => (((i * 7919 + rank * 104_729 + step * 1299) % 257) - 128) / 16);

async function exchange(
  variables: readonly VariableShape[],
  nesterov: boolean,
  route: 'sparse' | 'dense',
): Promise<readonly Rank[]> {
  return Promise.all(
    ring.map(async (communicator, rank) => {
      const arena = communicator.openExchange({ variables, compression: COMPRESSION, nesterov, route });
      const updates: number[][] = [];
      const results: ExchangeResult[] = [];
      for (let step = 0; step < STEPS; step++) {
        variables.forEach((_, i) => arena.gradient(i).fill(rank));
        arena.gradient(0).set(gradientOf(rank, step));
        results.push(await arena.start({ density: 0.1, momentumFactor: 0.5, sumOfSquares: 1 }).promise);
        updates.push([...arena.gradient(0)]);
      }
      const state = { momentum: [...arena.momentum(0)], residual: [...arena.residual(0)] };
      arena.close();
      return { updates, results, ...state };
    }),
  );
}

describe('a step is taken by its own settings, whatever the step before had', () => {
  const FAST: LinkCost = { byteNs: 0.001, hopNs: 1 };
  const SLOW: LinkCost = { byteNs: 1000, hopNs: 1 };
  const LARGE: VariableShape = { name: 'large', shape: [200, 200] };

  /** What comes of steps with these settings, in one exchange. All ranks have the same gradient. */
  async function steps(compression: Compression, settings: readonly Partial<ExchangeStep>[]) {
    const [results] = await Promise.all(
      ring.map(async communicator => {
        const arena = communicator.openExchange({ variables: [LARGE], compression, nesterov: false });
        const results = [];
        for (const setting of settings) {
          arena.gradient(0).fill(1);
          const step = { density: 0.1, momentumFactor: 0, sumOfSquares: 40_000, ...setting };
          const { route, density } = await arena.start(step).promise;
          results.push({ route, density, norm: Math.hypot(...arena.gradient(0)) });
        }
        arena.close();
        return results;
      }),
    );
    return results!;
  }

  test('the route follows the links, and a step that must be sparse is', async () => {
    const settings = [
      { links: FAST },
      { links: SLOW },
      { links: FAST, maySendAll: true },
      { links: FAST },
      { links: FAST, density: 0.05 },
    ];
    expect(await steps(COMPRESSION, settings)).toMatchObject([
      { route: 'dense', density: 0.1 },
      { route: 'sparse', density: 0.1 },
      { route: 'dense', density: 1 },
      { route: 'dense', density: 0.1 },
      { route: 'dense', density: 0.05 },
    ]);
  });

  test('what is clipped follows the momentum: the mean where there is none, else each rank', async () => {
    const sparse = { links: SLOW, density: 0.1 };
    const settings = [sparse, { ...sparse, momentumFactor: 0.5 }, sparse];
    const results = await steps(dgc({ steps: 100, clipNorm: 1, values: 'float32' }), settings);
    const [mean, ranks, again] = results.map(({ norm }) => norm);
    expect([mean, again]).toEqual([expect.closeTo(1, 3), expect.closeTo(1, 3)]);
    // A tenth of the elements is sent, of a gradient that each rank clips to 1 · √4, and of what was held back before.
    expect(ranks).toBeGreaterThan(1.5);
  });
});

describe.each(casesOf([true], [false]))('the two routes, nesterov %s', nesterov => {
  let sparse: readonly Rank[];
  let dense: readonly Rank[];

  beforeAll(async () => {
    sparse = await exchange([MATRIX], nesterov, 'sparse');
    dense = await exchange([MATRIX, HEAVY], nesterov, 'dense');
  });

  test('both were taken', () => {
    // The all-gather sends 3 payloads of 410 entries, about 10 kB; the dense ring at least 2 · 3/4 of all bytes.
    for (const { results } of sparse) for (const { bytesSent } of results) expect(bytesSent).toBeLessThan(15_000);
    const wholeRing = 1.5 * (ELEMENTS + 50_000) * 4;
    for (const { results } of dense) {
      for (const { bytesSent } of results) {
        expect(bytesSent).toBeGreaterThanOrEqual(wholeRing);
        expect(bytesSent).toBeLessThan(wholeRing * 1.05); // the all-gather would have sent twice as much
      }
    }
  });

  test('they give the same updates, on all ranks', () => {
    const [{ updates }] = sparse as [Rank];
    const sent = updates[0]!.filter(value => value !== 0).length;
    expect(sent).toBeGreaterThanOrEqual(410); // what one rank sends; the others add theirs
    expect(sent).toBeLessThanOrEqual(4 * 410);
    for (const rank of [...sparse, ...dense]) expect(rank.updates).toEqual(updates);
  });

  test('they leave the same momentum and residual, each rank its own', () => {
    expect(dense.map(({ momentum }) => momentum)).toEqual(sparse.map(({ momentum }) => momentum));
    expect(dense.map(({ residual }) => residual)).toEqual(sparse.map(({ residual }) => residual));
    for (const { momentum, residual } of sparse) {
      const sent = [...momentum.keys()].filter(i => residual[i] === 0);
      expect(sent.length).toBeGreaterThanOrEqual(410);
      expect(sent.filter(i => momentum[i] !== 0)).toEqual([]); // masked
      expect(momentum.filter(u => u !== 0).length).toBeGreaterThan(ELEMENTS / 2);
    }
    expect(sparse[1]!.residual).not.toEqual(sparse[0]!.residual);
  });

  test('nothing is lost: without momentum, sent and kept add up to all gradients', async () => {
    const ranks = await Promise.all(
      ring.map(async (communicator, rank) => {
        const arena = communicator.openExchange({ variables: [MATRIX], compression: COMPRESSION, nesterov });
        const received = new Float64Array(ELEMENTS);
        for (let step = 0; step < STEPS; step++) {
          arena.gradient(0).set(gradientOf(rank, step));
          await arena.start({ density: 0.1, momentumFactor: 0, sumOfSquares: 1 }).promise;
          arena.gradient(0).forEach((value, i) => (received[i]! += value * RANKS));
        }
        const residual = [...arena.residual(0)];
        arena.close();
        return { received, residual };
      }),
    );
    const given = new Float64Array(ELEMENTS);
    for (let rank = 0; rank < RANKS; rank++) {
      for (let step = 0; step < STEPS; step++) gradientOf(rank, step).forEach((value, i) => (given[i]! += value));
    }
    const kept = (i: number) => ranks.reduce((sum, { residual }) => sum + residual[i]!, 0);
    expect([...ranks[0]!.received].map((sent, i) => sent + kept(i))).toEqual([...given]);
  });
});

describe.each(casesWhere(values => values === 'float16', VALUE_FORMATS))('values as %s', values => {
  // Only one rank has gradients, so that what all receive is what it sent, and the sum of ranks rounds nothing.
  test('what was sent and what is kept is what was accumulated, exactly, in sparse and in dense tensors', async () => {
    const variables = [MATRIX, { name: 'bias', shape: [70] }];
    const compression = dgc({ sparsity: 0.9, warmUpEpochs: 0, values });
    const next = random(3);
    const gradients = Array.from({ length: STEPS }, () =>
      variables.map(({ shape }) => {
        const elementCount = shape.reduce((product, size) => product * size);
        return Float32Array.from({ length: elementCount }, () => (next() - 0.5) * 10 ** (4 * next() - 3));
      }),
    );
    const step = { density: 0.1, momentumFactor: 0, sumOfSquares: 1 };
    const steps = await Promise.all(
      ring.map(async (communicator, rank) => {
        const arena = communicator.openExchange({ variables, compression, nesterov: false });
        const seen: { sent: Float32Array; kept: Float32Array }[][] = [];
        for (const ofStep of gradients) {
          variables.forEach((_, i) => (rank === 1 ? arena.gradient(i).set(ofStep[i]!) : arena.gradient(i).fill(0)));
          const { bytesSent, denseBytes } = await arena.start(step).promise;
          expect(bytesSent).toBeLessThan(denseBytes);
          const sent = (i: number) => arena.gradient(i).map(value => value * RANKS);
          seen.push(variables.map((_, i) => ({ sent: sent(i), kept: arena.residual(i).slice() })));
        }
        arena.close();
        return seen;
      }),
    );
    const lossy = values !== 'float32';
    let lost = 0;
    variables.forEach((_, i) => {
      let before: Float32Array = new Float32Array(gradients[0]![i]!.length);
      gradients.forEach((ofStep, s) => {
        const { sent } = steps[0]![s]![i]!;
        const { kept } = steps[1]![s]![i]!;
        const accumulated = before.map((value, j) => value + ofStep[i]![j]!);
        expect([...accumulated.map((_, j) => sent[j]! + kept[j]!)]).toEqual([...accumulated]);
        lost += kept.filter((value, j) => value !== 0 && sent[j] !== 0).length;
        before = kept;
      });
    });
    if (lossy) expect(lost).toBeGreaterThan(100);
    else expect(lost).toBe(0);
  });
});

describe('a gradient that is not finite on one rank', () => {
  test.each([
    ['sparse all-gather', [MATRIX]],
    ['dense ring', [MATRIX, HEAVY]],
  ])('%s: is told to all; the others hold theirs back, and nothing of it is kept', async (_, variables) => {
    const step = { density: 0.1, momentumFactor: 0, sumOfSquares: 1, residualScale: 0.5 };
    const ranks = await Promise.all(
      ring.map(async (communicator, rank) => {
        const arena = communicator.openExchange({ variables, compression: COMPRESSION, nesterov: false });
        arena.residual(0).fill(2); // of steps before, at twice the learning rate
        arena.gradient(0).set(gradientOf(rank, 0));
        if (rank === 2) arena.gradient(0)[5] = NaN;
        const { nonFinite } = await arena.start({ ...step, nonFiniteTensor: rank === 2 ? 0 : undefined }).promise;
        const residual = [...arena.residual(0)];
        arena.close();
        return { nonFinite, residual };
      }),
    );
    for (const [rank, { nonFinite, residual }] of ranks.entries()) {
      expect(nonFinite).toEqual({ rank: 2, tensor: 0 });
      const gradient = rank === 2 ? new Float32Array(ELEMENTS) : gradientOf(rank, 0);
      expect(residual).toEqual(Array.from(gradient, each => each + 1));
    }
  });
});

test.each([
  ...ENTRY_ROUTES.map(route => [route, COMPRESSION, route] as const),
  ['a compressor', powerSgd(), undefined] as const,
])('%s: what ranks tell with a step, all learn after it', async (_, compression, route) => {
  const results = await Promise.all(
    ring.map(async (communicator, rank) => {
      const input = { variables: [MATRIX, HEAVY], compression, nesterov: false, route };
      const exchange = communicator.openExchange(input);
      const told: number[] = [];
      for (const notices of [0, 2 ** rank, rank === 3 ? 0x80 : 0]) {
        const step = { density: 0.1, momentumFactor: 0, sumOfSquares: 1, notices };
        told.push((await exchange.start(step).promise).notices);
      }
      exchange.close();
      return told;
    }),
  );
  for (const told of results) expect(told).toEqual([0, 0b1111, 0x80]);
});

describe('what is sent whole', () => {
  const BIAS: VariableShape = { name: 'bias', shape: [30_000] };
  const VARIABLES = [BIAS, MATRIX, { name: 'scale', shape: [3000] }];
  const step = { density: 0.1, momentumFactor: 0.5, sumOfSquares: 1 };

  /** Some steps of both ways: updates, momenta and residuals of all variables, and the last result. */
  const run = (route: 'sparse' | 'mixed', nonFinite?: { rank: number; tensor: number }) =>
    Promise.all(
      ring.map(async (communicator, rank) => {
        const input = { variables: VARIABLES, compression: COMPRESSION, nesterov: false, route };
        const exchange = communicator.openExchange(input);
        let result: ExchangeResult;
        for (let number = 0; number < STEPS; number++) {
          for (const i of VARIABLES.keys()) {
            const values = gradientOf(rank, number + 10 * i);
            exchange.gradient(i).forEach((_, at, all) => (all[at] = values[at % ELEMENTS]!));
          }
          const nonFiniteTensor = number === STEPS - 1 && nonFinite?.rank === rank ? nonFinite.tensor : undefined;
          result = await exchange.start({ ...step, nonFiniteTensor }).promise;
        }
        const states = [...VARIABLES.keys()].map(i =>
          [exchange.gradient(i), exchange.momentum(i), exchange.residual(i)].map(view => [...view]),
        );
        exchange.close();
        return { states, result: result! };
      }),
    );

  test('may take the dense ring beside the sparse frames, with the same bits and fewer bytes', async () => {
    const [sparse, mixed] = [await run('sparse'), await run('mixed')];
    for (const [rank, { states, result }] of mixed.entries()) {
      expect(states).toEqual(sparse[rank]!.states);
      expect([result.route, sparse[rank]!.result.route]).toEqual(['mixed', 'sparse']);
      expect(result.bytesSent).toBeLessThan(0.65 * sparse[rank]!.result.bytesSent);
    }
  });

  test('a gradient that is not finite is told to all', async () => {
    for (const { result } of await run('mixed', { rank: 2, tensor: 0 })) {
      expect(result.nonFinite).toEqual({ rank: 2, tensor: 0 });
    }
  });
});

test('a momentum that overflows is told to all, and begun anew', async () => {
  const results = await Promise.all(
    ring.map(async communicator => {
      const compression = noCompression();
      const exchange = communicator.openExchange({ variables: [MATRIX], compression, nesterov: false });
      const step = { density: 1, momentumFactor: 0.9, sumOfSquares: 1 };
      const seen: unknown[] = [];
      for (const gradient of [...Array<number>(6).fill(0.8e38), 1]) {
        exchange.gradient(0).fill(gradient);
        const { nonFinite } = await exchange.start(step).promise;
        seen.push(nonFinite ?? exchange.gradient(0)[7]);
      }
      exchange.close();
      return seen;
    }),
  );
  const float32 = (value: number) => expect.closeTo(value, -33) as number;
  for (const seen of results) {
    const finite = [0.8e38, 1.52e38, 2.168e38, 2.7512e38, 3.27608e38].map(float32);
    expect(seen).toEqual([...finite, { rank: undefined, tensor: 0 }, 1]);
  }
});

describe('finite gradients that overflow float32', () => {
  const step = { density: 0.1, momentumFactor: 0, sumOfSquares: 1 };

  test.each([
    ['sparse all-gather', [MATRIX]],
    ['dense ring', [MATRIX, HEAVY]],
  ])('%s: in the sum of ranks, or accumulated on one', async (_, variables) => {
    const results = await Promise.all(
      ring.map(async (communicator, rank) => {
        const arena = communicator.openExchange({ variables, compression: COMPRESSION, nesterov: false });
        arena.gradient(0).fill(2e38);
        const inSum = (await arena.start(step).promise).nonFinite;
        const spoil = async (value: number) => {
          for (const i of variables.keys()) arena.gradient(i).fill(0);
          if (rank === 1) arena.gradient(0).fill(value);
          return (await arena.start(step).promise).nonFinite;
        };
        // Nine tenths of the first gradient stay in this rank's residual; the second adds as much.
        const held = await spoil(3e38);
        const onOneRank = await spoil(3e38);
        const after = await spoil(1e-3);
        arena.close();
        return { inSum, held, onOneRank, after };
      }),
    );
    for (const { inSum, held, onOneRank, after } of results) {
      expect(inSum).toEqual({ rank: undefined, tensor: 0 });
      expect(held).toBeUndefined();
      expect(onOneRank).toEqual({ rank: 1, tensor: 0 });
      expect(after).toBeUndefined(); // what overflowed is forgotten
    }
  });
});

test.each(['sparse', 'dense'] as const)('the route may be fixed: %s', async forced => {
  const variables = forced === 'sparse' ? [MATRIX, HEAVY] : [MATRIX]; // what would take another route
  const step = { density: 0.1, momentumFactor: 0, sumOfSquares: 1 };
  const results = await Promise.all(
    ring.map(async communicator => {
      const run = async (given: { route?: 'sparse' | 'dense' }) => {
        const input = { variables, compression: COMPRESSION, nesterov: false, ...given };
        const exchange = communicator.openExchange(input);
        exchange.gradient(0).set(gradientOf(communicator.rank, 0));
        const result = await exchange.start(step).promise;
        const update = [...exchange.gradient(0)];
        exchange.close();
        return { ...result, update };
      };
      return { free: await run({}), held: await run({ route: forced }) };
    }),
  );
  for (const { free, held } of results) {
    expect([free.route, held.route]).toEqual([forced === 'sparse' ? 'mixed' : 'sparse', forced]);
    expect(held.update).toEqual(free.update);
    for (const { route, bytesSent, denseBytes, timesMs } of [free, held]) {
      expect(bytesSent >= denseBytes).toBe(route === 'dense');
      for (const stage of ['compress', 'travel', 'decode'] as const) expect(timesMs[stage]).toBeGreaterThan(0);
      expect(timesMs.encode > 0).toBe(route !== 'dense');
    }
  }
});

test('ranks that fix different routes are told', async () => {
  const own = await connectRing(2);
  const failures = await Promise.all(
    own.map(async (communicator, rank) => {
      const route = rank === 0 ? 'sparse' : 'dense';
      const input = { variables: [MATRIX], compression: COMPRESSION, nesterov: false, route } as const;
      const exchange = communicator.openExchange(input);
      return failureOf(exchange.start({ density: 0.1, momentumFactor: 0, sumOfSquares: 1 }).promise);
    }),
  );
  for (const { code } of failures) expect(code).toBe('ERR_MODEL_MISMATCH');
  await closeRing(own);
});

test('where one rank alone overflows in a tensor that travels whole, the momentum that all share stays alike', async () => {
  const [before, huge] = [1.0003e38, 3.4028234e38];
  const results = await Promise.all(
    ring.map(async (communicator, rank) => {
      const exchange = communicator.openExchange({
        variables: [{ name: 'bias', shape: [8] }],
        compression: dgc({ sparsity: 0.9, warmUpEpochs: 0, values: 'float16' }),
        nesterov: false,
        route: 'sparse', // the dense ring loses nothing
      });
      const step = async (gradient: number) => {
        exchange.gradient(0).fill(gradient);
        const { nonFinite } = await exchange.start({
          ...{ density: 0.1, momentumFactor: 0.5, sumOfSquares: 1 },
        }).promise;
        return { nonFinite, update: [...exchange.gradient(0)], residual: exchange.residual(0)[0]! };
      };
      const first = await step(rank === 0 ? before : 1);
      const second = await step(rank === 0 ? huge : 1); // what the first has lost makes it infinite
      const third = await step(1);
      exchange.close();
      return { first, second, third };
    }),
  );
  expect(results[0]!.first.residual).toBeGreaterThan(0);
  for (const { first, second, third } of results) {
    expect(first.nonFinite).toBeUndefined();
    expect(second.nonFinite).toEqual({ rank: 0, tensor: 0 });
    expect(third.nonFinite).toBeUndefined();
    expect(third.update).toEqual(results[0]!.third.update);
    expect(third.update[0]).toBeGreaterThan(1e37); // half of the first step's
  }
});
