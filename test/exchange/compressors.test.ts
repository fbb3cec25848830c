import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Communicator } from '../../src/communicator/communicator';
import {
  customCompression,
  type CustomCompression,
  lowRank,
  oneBit,
  powerSgd,
  qsgd,
  ternGrad,
} from '../../src/compression/compressors/custom-compression';
import type { VariableShape } from '../../src/exchange/arena-layout';
import { casesOf } from '../support/cases';
import { readPage } from '../support/doc-pages';
import { collectLess } from '../support/garbage';
import { random } from '../support/random';
import { closeRing, connectRing, failureOf } from '../support/rings';

beforeAll(collectLess);

const RANKS = 3;
const VARIABLES: VariableShape[] = [
  { name: 'kernel', shape: [3, 3, 8, 16] },
  { name: 'bias', shape: [16] },
  { name: 'dense', shape: [60, 40] },
];
const SIGN_SGD = path.join(__dirname, '../../docs/how-to/sign-sgd.js');

let ring: Communicator[];
beforeAll(async () => {
  ring = await connectRing(RANKS);
});
afterAll(() => closeRing(ring));

const sizeOf = ({ shape }: VariableShape) => shape.reduce((product, size) => product * size, 1);

function gradientsOf(rank: number, step: number): Float32Array[] {
  const next = random(100 * rank + step + 1);
  return VARIABLES.map(variable => Float32Array.from({ length: sizeOf(variable) }, () => next() + next() - 1));
}

const STEP = { density: 1, momentumFactor: 0.9, sumOfSquares: 1 };

/** Some steps on all ranks, each with an exchange of its own. */
async function train(compression: CustomCompression, steps = 4, momentumFactor = 0.9) {
  const route = compression.compressor === 'lowRank' ? 'coded' : 'custom';
  return Promise.all(
    ring.map(async (communicator, rank) => {
      const exchange = communicator.openExchange({ variables: VARIABLES, compression, nesterov: false });
      const updates: Float32Array[][] = [];
      let bytesSent = 0;
      for (let step = 0; step < steps; step++) {
        gradientsOf(rank, step).forEach((gradient, i) => exchange.gradient(i).set(gradient));
        const result = await exchange.start({ ...STEP, momentumFactor, step }).promise;
        expect([result.route, result.nonFinite]).toEqual([route, undefined]);
        ({ bytesSent } = result);
        updates.push(VARIABLES.map((_, i) => exchange.gradient(i).slice()));
      }
      const residuals = VARIABLES.map((_, i) => exchange.residual(i).slice());
      const shared = VARIABLES.map((_, i) => exchange.shared(i).slice());
      exchange.close();
      return { updates, residuals, shared, bytesSent };
    }),
  );
}

const COMPRESSIONS = casesOf<[string, CustomCompression]>(
  [
    ['oneBit()', oneBit()],
    ['lowRank()', lowRank()],
    ['customCompression()', customCompression(SIGN_SGD, { denseBelow: 0 })],
  ],
  [
    ['ternGrad()', ternGrad()],
    ['qsgd()', qsgd()],
    ['powerSgd()', powerSgd()],
  ],
);

describe.each(COMPRESSIONS)('%s', (name, compression) => {
  let ranks: Awaited<ReturnType<typeof train>>;
  beforeAll(async () => {
    ranks = await train(compression);
  });

  test('all ranks have the same updates, and again the same bits', async () => {
    for (const rank of ranks) {
      expect(rank.updates).toEqual(ranks[0]!.updates);
      expect(rank.shared).toEqual(ranks[0]!.shared);
    }
    expect(ranks[0]!.updates.flat().every(update => update.every(Number.isFinite))).toBe(true);
    expect((await train(compression))[0]!.updates).toEqual(ranks[0]!.updates);
  });

  if (name === 'lowRank()') return; // it sends them as whole numbers

  test('a tensor of one dimension is averaged, and the momentum is that of the average', () => {
    const momentum = new Float64Array(16);
    ranks[0]!.updates.forEach((update, step) => {
      const biases = Array.from({ length: RANKS }, (_, rank) => gradientsOf(rank, step)[1]!);
      momentum.forEach((u, i) => (momentum[i] = 0.9 * u + biases.reduce((sum, bias) => sum + bias[i]!, 0) / RANKS));
      update[1]!.forEach((value, i) => expect(value).toBeCloseTo(momentum[i]!, 5));
    });
  });
});

test('with low rank the small tensors are sent as whole numbers, and what that loses is kept', async () => {
  const ranks = await train(lowRank(), 4, 0);
  const lost = ranks.map(({ residuals }) => residuals[1]!);
  expect(lost.some(residual => residual.some(value => value !== 0))).toBe(true);
  for (let i = 0; i < 16; i++) {
    const given = ranks.flatMap((_, rank) => [0, 1, 2, 3].map(step => gradientsOf(rank, step)[1]![i]!));
    const kept = lost.reduce((sum, residual) => sum + residual[i]!, 0);
    const applied = ranks[0]!.updates.reduce((sum, update) => sum + update[1]![i]!, 0);
    expect(applied + kept / RANKS).toBeCloseTo(given.reduce((sum, value) => sum + value, 0) / RANKS, 5);
  }
});

test.each([
  ['lowRank()', lowRank({ clipNorm: 0.5 })],
  ['qsgd()', qsgd({ clipNorm: 0.5, clipAt: 'mean' })],
])('%s: clipped at the mean, all tensors of an update together have at most that norm', async (_, compression) => {
  const [{ updates }] = (await train(compression, 4, 0)) as [Awaited<ReturnType<typeof train>>[number]];
  for (const update of updates) {
    const norm = Math.sqrt(update.flatMap(values => [...values]).reduce((sum, value) => sum + value * value, 0));
    expect(norm).toBeCloseTo(0.5, 5);
  }
});

test('they send far less than the dense ring, as their papers say', async () => {
  const variables = [{ name: 'kernel', shape: [200, 300] }];
  const next = random(1);
  const gradient = Float32Array.from({ length: 60_000 }, () => next() + next() - 1);
  const dense = (2 * (RANKS - 1) * gradient.byteLength) / RANKS;
  const ratioOf = async (compression: CustomCompression) => {
    const sent = await Promise.all(
      ring.map(async communicator => {
        const exchange = communicator.openExchange({ variables, compression, nesterov: false });
        exchange.gradient(0).set(gradient);
        const { bytesSent } = await exchange.start({ ...STEP, step: 0 }).promise;
        exchange.close();
        return bytesSent;
      }),
    );
    return dense / sent[0]!;
  };
  // A rank sends two messages, where the dense ring sends 4/3 of 32 bits a value.
  expect(await ratioOf(oneBit())).toBeGreaterThan((32 * 4) / 3 / (2 * 1.35)); // one bit, and the means of 300 columns
  expect(await ratioOf(ternGrad())).toBeGreaterThan((32 * 4) / 3 / (2 * 1.35)); // the entropy is 1.25
  expect(await ratioOf(qsgd({ levels: 1, bucket: 512 }))).toBeGreaterThan((32 * 4) / 3 / (2 * 0.55)); // Elias codes of 20 values in 512
  const quarter = (32 * 4) / 3 / (2 * 0.25); // of a bit, beside the frame and the scales
  const ofLowRank = await ratioOf(lowRank());
  expect(ofLowRank).toBeGreaterThan(0.85 * quarter);
  expect(ofLowRank).toBeLessThan(1.15 * quarter);
  // P and Q, together 500 numbers, travel by the dense ring, too.
  expect(await ratioOf(powerSgd({ rank: 1 }))).toBeGreaterThan(60);
});

test('a gradient that is not finite on one rank fails the step on all, and what is kept stays', async () => {
  const outcomes = await Promise.all(
    ring.map(async (communicator, rank) => {
      const exchange = communicator.openExchange({ variables: VARIABLES, compression: oneBit(), nesterov: false });
      const run = async (step: number, nonFiniteTensor?: number) => {
        gradientsOf(rank, step).forEach((gradient, i) => exchange.gradient(i).set(gradient));
        return exchange.start({ ...STEP, step, nonFiniteTensor }).promise;
      };
      await run(0);
      const before = exchange.momentum(2).slice();
      const { nonFinite } = await run(1, rank === 1 ? 2 : undefined);
      expect(exchange.momentum(2)).toEqual(before);
      const after = await run(2);
      exchange.close();
      return { nonFinite, after: after.nonFinite };
    }),
  );
  expect(outcomes).toEqual(ring.map(() => ({ nonFinite: { rank: 1, tensor: 2 }, after: undefined })));
});

test('a tensor whose messages would take longer than the dense ring is averaged there, and nothing of it is kept', async () => {
  const compression = customCompression(path.join(__dirname, 'fixtures/long-messages-compressor.js'), {
    denseBelow: 0,
  });
  const variables = [
    { name: 'square', shape: [40, 40] },
    { name: 'other', shape: [400, 500] },
  ];
  const results = await Promise.all(
    ring.map(async (communicator, rank) => {
      const exchange = communicator.openExchange({ variables, compression, nesterov: false });
      for (const i of [0, 1]) exchange.gradient(i).fill(rank + 1);
      await exchange.start({ ...STEP, step: 0 }).promise;
      const ends = [0, 1].map(i => [exchange.gradient(i), exchange.residual(i)].map(values => [...new Set(values)]));
      exchange.close();
      return ends;
    }),
  );
  // Of the other one the compressor sends nothing.
  expect(results).toEqual(ring.map((_, rank) => [[[2], [0]], [[0], [rank + 1]]])); // prettier-ignore
});

test.each([
  ['broken', 'ERR_COMM_THREAD', /^Rank [01] failed in[^]*it does not like this gradient/],
  [
    'hasty',
    'ERR_COMM_THREAD',
    /^Rank [01] failed in[^]*A compressor must await each request before it makes the next\./,
  ],
  [
    'measureless',
    'ERR_INVALID_ARGUMENT',
    /The compressor expects NaN bits for a tensor of the shape \[3, 3, 8, 16\]\./,
  ],
  ['lying', 'ERR_PROTOCOL', /Rank 1 sent a bad payload: it is too long/],
])('a %s compressor fails the step on all ranks', async (name, expected, words) => {
  const compression = customCompression(path.join(__dirname, `fixtures/${name}-compressor.js`));
  const own = await connectRing(2);
  const failures = await Promise.all(
    own.map(communicator => {
      const exchange = communicator.openExchange({ variables: VARIABLES, compression, nesterov: false });
      exchange.gradient(0).fill(communicator.rank);
      return failureOf(exchange.start({ ...STEP, step: 0 }).promise);
    }),
  );
  for (const { code, message } of failures) {
    expect(code).toBe(expected);
    expect(message).toMatch(words);
  }
  await closeRing(own);
});

test('ranks whose compressors are other files at the same path are told', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'gradring-compressor-'));
  const module = path.join(folder, 'own.js');
  const own = await connectRing(2);
  const exchanges = own.map((communicator, rank) => {
    writeFileSync(module, `${readFileSync(SIGN_SGD, 'utf8')}// of rank ${rank}`);
    const compression = customCompression(module);
    return communicator.openExchange({ variables: VARIABLES, compression, nesterov: false });
  });
  const failures = await Promise.all(
    exchanges.map(exchange => failureOf(exchange.start({ ...STEP, step: 0 }).promise)),
  );
  for (const { code } of failures) expect(code).toBe('ERR_MODEL_MISMATCH');
  await closeRing(own);
  rmSync(folder, { recursive: true });
});

test('the page on compressors shows that file', () => {
  const [, code] = /^(module\.exports.*)$/ms.exec(readFileSync(SIGN_SGD, 'utf8'))!;
  expect(readPage('docs/how-to/compressor.md')).toContain(`\`\`\`js\n${code}\`\`\``);
});
