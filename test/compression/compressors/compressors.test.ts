import { crc32 } from 'node:zlib';
import type { CompressionRing, Compressor } from '../../../src/compression/compressors/compressor';
import { writeScale } from '../../../src/compression/compressors/tensor-code';
import { CodeScratch } from '../../../src/compression/compressors/code-scratch';
import { FactorCode } from '../../../src/compression/compressors/factor-code';
import { chooseRank } from '../../../src/compression/compressors/low-rank';
import { oneBitCompressor } from '../../../src/compression/compressors/one-bit';
import { powerSgdCompressor } from '../../../src/compression/compressors/power-sgd';
import { qsgdCompressor } from '../../../src/compression/compressors/qsgd';
import { randomOf } from '../../../src/compression/compressors/random-of';
import { ternGradCompressor } from '../../../src/compression/compressors/tern-grad';
import { GradringError } from '../../../src/errors';
import { casesWhere } from '../../support/cases';
import { random } from '../../support/random';
import { FakeRanks, lowRankCompressor } from './fake-ring';
import { factorsOf, oneBit, quantized, type Sender, SENDERS, ternarized, wholeNumbers } from './reference';

const RANKS = 3;

/** Normal numbers, more or less: sums of four uniform ones. */
function gradientsOf(length: number, seed: number, ranks = RANKS): Float32Array[] {
  const next = random(seed);
  return Array.from({ length: ranks }, () =>
    Float32Array.from({ length }, () => next() + next() + next() + next() - 2),
  );
}

const norm = (values: Iterable<number>) => Math.sqrt([...values].reduce((sum, value) => sum + value * value, 0));
const expectClose = (found: Float32Array, expected: readonly number[], relative = 1e-5) => {
  const difference = norm(expected.map((value, i) => value - found[i]!));
  expect(difference).toBeLessThanOrEqual(relative * norm(expected) + 1e-30);
};

const ALL: [name: string, compressor: Compressor][] = [
  ['1-bit SGD', oneBitCompressor()],
  ['TernGrad', ternGradCompressor()],
  ['QSGD, 1 level', qsgdCompressor({ levels: 1, bucket: 16 })],
  ['QSGD, 4 levels', qsgdCompressor({ levels: 4, bucket: 100 })],
  ['QSGD, 255 levels', qsgdCompressor({ levels: 255, bucket: 7 })],
  ['PowerSGD, rank 1', powerSgdCompressor({ rank: 1, seed: 3 })],
  ['PowerSGD, rank 4', powerSgdCompressor({ rank: 4, seed: 3 })],
  ['low rank, 1 column', lowRankCompressor({ rank: 1, step: 0.7 })],
  ['low rank, 4 columns', lowRankCompressor({ rank: 4, step: 0.5 })],
  ['whole numbers', lowRankCompressor({ rank: 1, step: 0.7 }).small],
];

const COMMON = ['1-bit SGD', 'QSGD, 4 levels', 'PowerSGD, rank 4', 'low rank, 4 columns'];

describe.each(casesWhere(([name]) => COMMON.includes(name), ALL))('%s', (_, compressor) => {
  test('all ranks have the same bits, and the same step has the same bits again', async () => {
    const gradients = gradientsOf(40 * 30, 1);
    const run = async () => {
      const ranks = new FakeRanks(compressor, [40, 30], RANKS);
      const means: number[][][] = [];
      for (let step = 0; step < 3; step++) means.push((await ranks.step(gradients, step)).map(mean => [...mean]));
      return { means, shared: ranks.ranks.map(({ shared }) => [...shared]) };
    };
    const first = await run();
    for (const [mean, ...others] of first.means) for (const other of others) expect(other).toEqual(mean);
    for (const shared of first.shared) expect(shared).toEqual(first.shared[0]);
    expect(await run()).toEqual(first);
  });

  test('zeros stay zeros, and the extremes of float32 stay finite', async () => {
    const zeros = await new FakeRanks(compressor, [8, 4], 2).step([new Float32Array(32), new Float32Array(32)]);
    expect([...zeros[0]!].every(value => value === 0)).toBe(true);
    const huge = new Float32Array(32).fill(1e38);
    const means = await new FakeRanks(compressor, [8, 4], 1).step([huge]);
    expect(means[0]!.every(Number.isFinite)).toBe(true);
  });

  test('a mean over many steps comes near that of the gradients', async () => {
    const gradients = gradientsOf(32 * 16, 5);
    const expected = [...gradients[0]!].map((_, i) => gradients.reduce((sum, each) => sum + each[i]!, 0) / RANKS);
    const ranks = new FakeRanks(compressor, [32, 16], RANKS);
    const sums = new Float64Array(32 * 16);
    const steps = 200;
    for (let step = 0; step < steps; step++) (await ranks.step(gradients, step))[0]!.forEach((m, i) => (sums[i]! += m));
    // TernGrad clips to 2.5 standard deviations: about 1 % of a normal gradient.
    expectClose(
      Float32Array.from(sums, sum => sum / steps),
      expected,
      0.2,
    );
  });

  if (compressor.errorFeedback) {
    test('sent and kept add up to what was given', async () => {
      const ranks = new FakeRanks(compressor, [20, 15], RANKS);
      const given = new Float64Array(300);
      const received = new Float64Array(300);
      for (let step = 0; step < 20; step++) {
        const gradients = gradientsOf(300, 100 + step);
        for (const gradient of gradients) gradient.forEach((value, i) => (given[i]! += value / RANKS));
        (await ranks.step(gradients, step))[0]!.forEach((value, i) => (received[i]! += value));
      }
      const kept = (i: number) => ranks.ranks.reduce((sum, { residual }) => sum + residual[i]! / RANKS, 0);
      expectClose(
        Float32Array.from(received, (value, i) => value + kept(i)),
        [...given],
        1e-4,
      );
    });
  }
});

test('1-bit SGD: the sign of a value says which mean of its column it becomes; one bit each', async () => {
  const [rows, columns] = [50, 6];
  const gradients = gradientsOf(rows * columns, 9, 2);
  const ranks = new FakeRanks(oneBitCompressor(), [5, 10, columns], 2);
  const [mean] = await ranks.step(gradients);
  const reference = gradients.map(gradient => oneBit([...gradient], columns).sent);
  expectClose(
    mean!,
    reference[0]!.map((value, i) => (value + reference[1]![i]!) / 2),
    1e-6,
  );
  expect(ranks.ranks[0]!.messageBytes).toBe((rows * columns + 4) / 8 + 8 * columns); // 300 bits are 38 bytes
});

/** The bits per value that no code of independent values beats. */
const entropyOf = (symbols: readonly number[]) => {
  const counts = new Map<number, number>();
  for (const symbol of symbols) counts.set(symbol, (counts.get(symbol) ?? 0) + 1);
  return [...counts.values()].reduce((sum, n) => sum - (n / symbols.length) * Math.log2(n / symbols.length), 0);
};

describe('TernGrad', () => {
  const reference = (gradients: readonly Float32Array[], step: number) =>
    ternarized(
      gradients.map(gradient => [...gradient]),
      gradients.map((_, rank) => randomOf(1, step, 0, rank)),
    );

  test('each value becomes −s, 0 or s, as the paper says', async () => {
    const gradients = gradientsOf(10_000, 4);
    const ranks = new FakeRanks(ternGradCompressor(), [100, 100], RANKS);
    const [mean] = await ranks.step(gradients, 7);
    const { scale, signs } = reference(gradients, 7);
    const expected = signs[0]!.map((_, i) => (scale * signs.reduce((sum, each) => sum + each[i]!, 0)) / RANKS);
    expectClose(mean!, expected, 1e-6);
  });

  test('it clips by the deviation from the mean, as its authors do: of equal values nothing is left', async () => {
    const equal = Float32Array.from({ length: 10_000 }, () => 1);
    const [nothing] = await new FakeRanks(ternGradCompressor(), [100, 100], 1).step([equal]);
    expect(nothing!.every(value => value === 0)).toBe(true);

    const [offsets] = gradientsOf(10_000, 6, 1);
    const nearlyEqual = offsets!.map(offset => 1 + offset / 100);
    const [mean] = await new FakeRanks(ternGradCompressor(), [100, 100], 1).step([nearlyEqual]);
    const { scale, signs } = reference([nearlyEqual], 0);
    expect(scale).toBeCloseTo(2.5 * Math.sqrt(1 / 3) * 0.01, 3); // the variance of four uniform numbers is 4/12
    expect(signs[0]!.every(sign => sign === 1)).toBe(true);
    expectClose(
      mean!,
      signs[0]!.map(sign => scale * sign),
    );
  });

  test.each([1, 0.3, 0.03, 0.003])('its bytes are near the entropy (one value in %d is large)', async share => {
    const next = random(2);
    const gradient = Float32Array.from({ length: 100_000 }, () => (next() < share ? 1 : 0.02) * (next() - 0.5));
    const ranks = new FakeRanks(ternGradCompressor(), [1000, 100], 1);
    await ranks.step([gradient]);
    const { signs } = reference([gradient], 0);
    const entropyBytes = (entropyOf(signs[0]!) * 100_000) / 8;
    expect(ranks.ranks[0]!.messageBytes).toBeLessThan(1.05 * entropyBytes + 100);
  });
});

describe('QSGD', () => {
  /** Elias's omega code, as in the paper, of a number: by text. */
  const omega = (value: number): string => {
    let code = '0';
    for (let rest = value; rest > 1; rest = rest.toString(2).length - 1) code = rest.toString(2) + code;
    return code;
  };

  test.each([1, 2, 16, 300])(
    '%i levels: each value is a level of its bucket, in as many bits as the paper says',
    async levels => {
      const bucket = 128;
      const [gradient] = gradientsOf(1000, levels, 1);
      const ranks = new FakeRanks(qsgdCompressor({ levels, bucket }), [100, 10], 1);
      const [mean] = await ranks.step([gradient!], 3);
      const expected: number[] = [];
      let bits = 0;
      for (const { norm, rounded } of quantized([...gradient!], { levels, bucket }, randomOf(1, 3, 0, 0))) {
        expected.push(...rounded.map(level => (norm * level) / levels));
        let gap = 1;
        let sparse = '';
        let dense = '';
        for (const level of rounded) {
          const sign = level === 0 ? '' : String(Number(level < 0));
          dense += omega(Math.abs(level) + 1) + sign;
          if (level === 0) gap++;
          else {
            sparse += omega(gap) + omega(Math.abs(level)) + sign;
            gap = 1;
          }
        }
        bits += 32 + 1 + Math.min(sparse.length + omega(gap).length, dense.length);
      }
      expectClose(mean!, expected, 1e-6);
      expect(ranks.ranks[0]!.messageBytes).toBe(Math.ceil(bits / 8));
    },
  );

  // Elias's codes cost what docs/algorithms.md says.
  test.each([1, 4, 16, 32, 256, 1024])('%i levels: its bytes are less than 1.6 times the entropy', async levels => {
    const bucket = 512;
    const length = 200 * bucket;
    const [gradient] = gradientsOf(length, levels, 1);
    const ranks = new FakeRanks(qsgdCompressor({ levels, bucket }), [200, bucket], 1);
    await ranks.step([gradient!]);
    const buckets = quantized([...gradient!], { levels, bucket }, randomOf(1, 0, 0, 0));
    const bits = entropyOf(buckets.flatMap(({ rounded }) => rounded)) * length + 32 * buckets.length;
    expect((8 * ranks.ranks[0]!.messageBytes) / bits).toBeLessThan(1.6);
  });
});

describe('PowerSGD', () => {
  test('a matrix of that rank is averaged exactly, in the first step', async () => {
    const next = random(8);
    const [n, m, r] = [30, 20, 3];
    const left = Array.from({ length: n * r }, () => next() - 0.5);
    const right = Array.from({ length: r * m }, () => next() - 0.5);
    const matrix = Float32Array.from({ length: n * m }, (_, i) => {
      const [row, column] = [Math.floor(i / m), i % m];
      return Array.from({ length: r }, (_, k) => left[row * r + k]! * right[k * m + column]!).reduce((a, b) => a + b);
    });
    const twice = matrix.map(value => 3 * value);
    const [mean] = await new FakeRanks(powerSgdCompressor({ rank: r, seed: 1 }), [5, 6, m], 2).step([matrix, twice]);
    expectClose(
      mean!,
      [...matrix].map(value => 2 * value),
      1e-5,
    );
  });

  test('with warm starts, the approximation of one matrix comes to the best one of that rank', async () => {
    // Singular values 4, 2, 1 with axes as vectors: the best approximation of rank 2 lacks the last one.
    const matrix = new Float32Array(12 * 9);
    [4, 2, 1].forEach((value, i) => (matrix[i * 9 + i] = value));
    const compressor = powerSgdCompressor({ rank: 2, seed: 5 });
    const ranks = new FakeRanks(compressor, [12, 9], 1);
    let mean: Float32Array | undefined;
    for (let step = 0; step < 30; step++) {
      ranks.ranks[0]!.residual.fill(0);
      [mean] = await ranks.step([matrix], step);
    }
    expectClose(
      mean!,
      [...matrix].map(value => (value === 1 ? 0 : value)),
      1e-5,
    );
  });

  test('each rank keeps what its own matrix lacks, not how it differs from the others', async () => {
    const ranks = new FakeRanks(powerSgdCompressor({ rank: 2, seed: 0 }), [12, 9], RANKS);
    const send: Sender = SENDERS.powerSgd(9);
    const gradients = gradientsOf(108, 77);
    let kept = gradients.map(gradient => [...gradient].map(() => 0));
    for (let step = 0; step < 5; step++) {
      await ranks.step(gradients, step);
      const values = kept.map((own, rank) => own.map((value, i) => value + gradients[rank]![i]!));
      const { sent } = send(values, 1, step);
      kept = values.map((own, rank) => own.map((value, i) => value - sent[rank]![i]!));
      ranks.ranks.forEach(({ residual }, rank) => expectClose(residual, kept[rank]!, 1e-4));
    }
  });

  test('nothing is gathered: the rank of a matrix bounds what travels', async () => {
    const ranks = new FakeRanks(powerSgdCompressor({ rank: 64, seed: 5 }), [3, 5], 2);
    const gradients = gradientsOf(15, 3, 2);
    const [mean] = await ranks.step(gradients);
    expect(ranks.ranks[0]!.messageBytes).toBe(0);
    expectClose(
      mean!,
      [...gradients[0]!].map((value, i) => (value + gradients[1]![i]!) / 2),
      1e-5,
    ); // of full rank
  });
});

describe('low rank', () => {
  /** A sum of outer products, each half as large as the one before, and noise. */
  const matrixOf = (rows: number, columns: number, rank: number, noise: number) => {
    const [one, other] = gradientsOf(rows * rank, 31, 1).concat(gradientsOf(columns * rank, 32, 1)) as [Float32Array, Float32Array]; // prettier-ignore
    const rest = gradientsOf(rows * columns, 33, 1)[0]!;
    return rest.map((value, at) => {
      let sum = noise * value;
      for (let j = 0; j < rank; j++) sum += (one[Math.floor(at / columns) * rank + j]! * other[(at % columns) * rank + j]!) / 2 ** j; // prettier-ignore
      return sum;
    });
  };
  const left = (ranks: FakeRanks, matrix: Float32Array) => (norm(ranks.ranks[0]!.residual) / norm(matrix)) ** 2;

  test.each([
    [64, 48],
    [30, 50],
    [7, 90],
  ])('of a matrix of %i × %i, it leaves as much as the reference, in double precision', async (rows, columns) => {
    const matrix = matrixOf(rows, columns, 3, 0.05);
    const ranks = new FakeRanks(lowRankCompressor({ rank: 3, step: 0.5 }), [rows, columns], 1);
    await ranks.step([matrix]);
    const { factors } = factorsOf([...matrix], columns, { rank: 3, step: 0.5 }, randomOf(1, 0, 0, 0));
    const expected = [...matrix].map(
      (value, i) => value - factors.reduce((sum, { p, q }) => sum + p[Math.floor(i / columns)]! * q[i % columns]!, 0),
    );
    expect(left(ranks, matrix)).toBeLessThan(0.1);
    expect(left(ranks, matrix) / (norm(expected) / norm(matrix)) ** 2).toBeCloseTo(1, 1);
  });

  test.each([
    ['one that a quarter of a bit is enough for', [[200, 300]], 11],
    [
      'several, of which a narrow one takes fewer columns',
      [
        [3, 3, 16, 32],
        [512, 256],
        [256, 10],
      ],
      12,
    ],
    ['many narrow ones', Array<number[]>(20).fill([64, 64]), 2],
    ['a large one: no more than a step has time for', [[4000, 1000]], 12],
    ['too small ones', [[4, 4]], 1],
    ['none', [], 12],
  ])('the rank for matrices: %s', (_, shapes, rank) => {
    expect(chooseRank(shapes, 0.7)).toBe(rank);
  });

  test.each([
    ['a small tensor', [200]],
    ['a matrix', [144, 32]],
  ])('%s: its message has about as many bits as is told', async (_, shape) => {
    const low = lowRankCompressor({ rank: 4, step: 0.7 });
    const compressor = shape.length === 1 ? low.small! : low;
    const length = shape.reduce((product, size) => product * size);
    const ranks = new FakeRanks(compressor, shape, 1);
    await ranks.step(gradientsOf(length, 5, 1));
    const ratio = (8 * ranks.ranks[0]!.messageBytes) / compressor.messageBits!(shape);
    expect(ratio).toBeGreaterThan(0.85);
    expect(ratio).toBeLessThan(1.15);
  });

  test.each([[[]], [[0]], [[4, 0]], [[1, 1]]])('a tensor of the shape %j has a message, too', shape => {
    const { messageBits, small } = lowRankCompressor({ step: 0.7 });
    for (const bits of [messageBits!(shape), small!.messageBits!(shape)]) expect(bits).toBeLessThan(100);
  });

  test('a column in which too little lies is not sent, and its bytes are saved', async () => {
    const bytes = async (rank: number) => {
      const ranks = new FakeRanks(lowRankCompressor({ rank, step: 0.5 }), [64, 48], 1);
      await ranks.step([matrixOf(64, 48, 2, 1e-4)]);
      return ranks.ranks[0]!.messageBytes;
    };
    expect(await bytes(12)).toBeLessThan(1.3 * (await bytes(2)));
  });

  test.each([0.4, 0.5, 0.7, 1])('at step %d its numbers take some bits more than the entropy', async step => {
    const [matrix] = gradientsOf(400 * 300, 3, 1); // all directions are as large
    const ranks = new FakeRanks(lowRankCompressor({ rank: 8, step }), [400, 300], 1);
    await ranks.step([matrix!]);
    const { factors } = factorsOf([...matrix!], 300, { rank: 8, step }, randomOf(1, 0, 0, 0));
    const bits = factors.reduce((sum, { p, q }) => {
      const smallest = Math.min(...q.map(Math.abs).filter(value => value > 0));
      return sum + 400 * entropyOf(p) + 300 * entropyOf(q.map(value => Math.round(value / smallest)));
    }, 0);
    expect((8 * ranks.ranks[0]!.messageBytes) / bits).toBeLessThan(1.12); // 32 bits of a scale are 2 % here
  });

  test('values of all sizes keep their parts', async () => {
    const matrix = matrixOf(40, 30, 2, 0.02);
    const leftAt = async (scale: number) => {
      const scaled = matrix.map(value => value * scale);
      const ranks = new FakeRanks(lowRankCompressor({ rank: 2, step: 0.5 }), [40, 30], 1);
      await ranks.step([scaled]);
      return [...ranks.ranks[0]!.residual].map(value => Math.fround(value / scale));
    };
    const expected = await leftAt(1);
    for (const scale of [2 ** -90, 2 ** -9, 2 ** 9, 2 ** 28, 2 ** 60, 2 ** 120]) {
      expect(await leftAt(scale)).toEqual(expected);
    }
  });

  test('of a large matrix of one value, of any size, most is sent', async () => {
    for (let exponent = -124; exponent <= 124; exponent += 8) {
      const matrix = new Float32Array(512 * 512).fill(2 ** exponent);
      const ranks = new FakeRanks(lowRankCompressor({ rank: 8, step: 0.5 }), [512, 512], 1);
      await ranks.step([matrix]);
      expect([exponent, Math.abs(ranks.ranks[0]!.residual[0]! / 2 ** exponent) < 0.2]).toEqual([exponent, true]);
    }
  });

  test.each<[string, (i: number) => number]>([
    ['one spike', i => (i === 0 ? 3.4e38 : 0)],
    ['two signs', i => (i % 2 === 0 ? 3.4e38 : -3.4e38)],
    ['all sizes', i => 3.4e38 * Math.sin(i * i)],
  ])('near the end of float32, %s: what is sent can be read', async (_, valueOf) => {
    const compressor = lowRankCompressor({ rank: 4, step: 0.7 });
    for (const [each, shape] of [
      [compressor.small!, [2]],
      [compressor.small!, [64]],
      [compressor, [40, 30]],
    ] as const) {
      const length = shape.reduce<number>((product, size) => product * size, 1);
      const [mean] = await new FakeRanks(each, shape, 1).step([Float32Array.from({ length }, (_, i) => valueOf(i))]);
      expect(mean!.every(Number.isFinite)).toBe(true);
    }
  });

  test.each([[[0]], [[0, 3]], [[3, 0]]])('a tensor of the shape %j has nothing to send', async shape => {
    const compressor = lowRankCompressor({ rank: 4, step: 0.7 });
    for (const each of [compressor, compressor.small!]) {
      const [mean] = await new FakeRanks(each, shape, 2).step([new Float32Array(0), new Float32Array(0)]);
      expect(mean).toHaveLength(0);
    }
  });

  test('a matrix so narrow that a column would take half as much is sent whole', async () => {
    const [matrix] = gradientsOf(60, 3, 1);
    const [mean] = await new FakeRanks(lowRankCompressor({ rank: 8, step: 0.5 }), [30, 2], 1).step([matrix!]);
    const { sent } = wholeNumbers([...matrix!], 0.5);
    expectClose(mean!, sent, 1e-6);
  });

  test('a spike in a long column is sent as far as a whole number reaches, and the rest later', async () => {
    const ranks = new FakeRanks(lowRankCompressor({ rank: 2, step: 0.5 }), [100_000, 4], 1);
    const matrix = new Float32Array(400_000);
    matrix[4_000] = 1;
    await ranks.step([matrix]);
    matrix.fill(0);
    const leftAfter = async () => {
      await ranks.step([matrix]);
      return norm(ranks.ranks[0]!.residual);
    };
    expect(await leftAfter()).toBeLessThan(0.3);
    expect(await leftAfter()).toBeLessThan(0.1);
  });

  test.each([
    [130, false],
    [131, true],
  ])('%d columns of the largest numbers: refused because their sum would not be exact: %s', (columns, isRefused) => {
    const scratch = new CodeScratch();
    const { writer } = scratch;
    writer.start();
    writer.write(columns, 16);
    writeScale(1, writer);
    for (let column = 0; column < columns; column++) {
      writer.write(63, 6);
      for (const length of [300, 280]) scratch.write(new Float32Array(length).fill(511));
    }
    const message = writer.finish().slice();
    const code = new FactorCode(scratch, { a: 300, b: 280, rank: 140, step: 1 });
    code.clear();
    const mean = new Float32Array(300 * 280);
    if (isRefused) return expect(() => code.add(message)).toThrow('holds a value out of range');
    code.add(message);
    code.take(mean, 1);
    expect(new Set(mean)).toEqual(new Set([Math.fround(columns * 63 * 511 * 511)]));
  });

  test('all engines and machines make these bytes', async () => {
    const messages: number[] = [];
    for (const shape of [[64, 48], [3, 3, 10, 22], [50]]) {
      // prettier-ignore
      const compressor = lowRankCompressor({ rank: 4, step: 0.7 });
      const length = shape.reduce((product, size) => product * size);
      const values = gradientsOf(length, 17, 1)[0]!;
      const tensor = { shape, values, mean: new Float32Array(length), sent: new Float32Array(length), shared: new Float32Array(0), random: randomOf(4) }; // prettier-ignore
      const gather: CompressionRing['gather'] = async (message, read) => {
        messages.push(crc32(message));
        read(message, 0);
      };
      const ring = { rank: 0, worldSize: 1, gather, mean: async () => values, largest: async () => values };
      await (shape.length === 1 ? compressor.small! : compressor).average(tensor, ring);
      messages.push(crc32(new Uint8Array(tensor.mean.buffer)));
    }
    expect(messages).toEqual([639157601, 652475010, 3974417216, 2581522404, 1573342327, 3751361746]);
  });
});

describe('messages of a hostile rank', () => {
  const gathering = ALL.filter(([name]) => !name.startsWith('Power'));

  test.each(gathering)('%s: are refused, or give finite means', async (_, compressor) => {
    const next = random(11);
    const [gradient] = gradientsOf(600, 2, 1);
    let own: Uint8Array | undefined;
    const decode = async (message: Uint8Array | undefined) => {
      const mean = new Float32Array(600);
      const tensor = {
        shape: [20, 30],
        values: gradient!,
        mean,
        sent: new Float32Array(600),
        shared: new Float32Array(0),
      };
      await compressor.average(
        { ...tensor, random: randomOf(1) },
        {
          ...{ rank: 0, worldSize: 2 },
          gather: async (sent, read) => [(own = sent), message ?? sent].forEach(read),
          mean: async values => values,
          largest: async values => values,
        },
      );
      return mean;
    };
    await decode(undefined);
    let refused = 0;
    for (let i = 0; i < 2000; i++) {
      const message = own!.slice(0, next() < 0.5 ? own!.length : Math.floor(next() * own!.length));
      for (let flips = 0; flips < 1 + 3 * next() && message.length > 0; flips++) {
        message[Math.floor(next() * message.length)] = Math.floor(256 * next());
      }
      try {
        const mean = await decode(message);
        expect(mean.every(Number.isFinite)).toBe(true);
      } catch (error) {
        expect(error).toBeInstanceOf(GradringError);
        expect((error as GradringError).code).toBe('ERR_PROTOCOL');
        refused++;
      }
    }
    expect(refused).toBeGreaterThan(100);
  });
});
