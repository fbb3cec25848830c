import type { LowRankOptions } from '../../src/compression/compressors/custom-compression';
import type { DgcOptions } from '../../src/compression/dgc-options';
import { SENDERS, SMALL_SENDERS } from '../compression/compressors/reference';
import { normals } from './fixtures/seeded';
import { largestError, runFixture } from './support';
import { casesWhere } from '../support/cases';

const RANKS = 3;
const LEARNING_RATES = [0.05, 0.05] as const;
const MOMENTUM = 0.9;
const DECAY = 0.1;
const SPARSITY = 0.99;
const WARM_UP_STEPS = 20;
const DENSE_BELOW = 1024;

/** Two sparse tensors, a bias that travels dense, and a matrix under `denseBelow`. */
const TENSORS = [[40, 50], [30, 41], [64], [10, 10]]; // prettier-ignore

interface Case {
  readonly name: string;
  readonly nesterov: boolean;
  /** The function of gradring that makes the compression. */
  readonly method: keyof typeof SENDERS | 'noCompression';
  readonly steps: number;
  /** The weights are compared after so many steps, and again. */
  readonly every: number;
  readonly seed: number;
  /** Factors of the gradients of steps 0, 1, 2, …, repeated. */
  readonly gradientScales: readonly number[];
  /** The learning rates of the first half of the steps, and of the second. */
  readonly learningRates: readonly [number, number];
  readonly options: DgcOptions & LowRankOptions;
}

// The reference does not round as a lossy format does.
const options = { sparsity: SPARSITY, warmUpSteps: WARM_UP_STEPS, denseBelow: DENSE_BELOW, values: 'float32' } as const;
const denseWarmUp = { ...options, warmUp: 'dense' } as const;
// A gradient of scale 1 has a norm of about √3400 = 58. At clipNorm 60 the limit is 60 · √3 = 104: scale 3 is clipped,
// 1 is not.
const clipNorm = 60;
const uneven = [1, 0.2, 3];

const common = { gradientScales: [1], learningRates: LEARNING_RATES, nesterov: false } as const;
const dgc = { ...common, method: 'dgc', steps: 40, every: 20, options } as const;
// Few steps: PowerSGD doubles a rounding error about every fourth step, because singular values lie close together. The
// options are the defaults.
const rival = { ...common, steps: 20, every: 20, options: {} } as const;
// Thousands of numbers are rounded in each step.
const brief = { steps: 3, every: 3 } as const;
const clipped = { gradientScales: uneven, options: { clipNorm } };

// With these seeds no choice of elements, or of signs, is so close that float32 could change it (checked below).
const ALL: readonly Case[] = [
  { ...dgc, name: 'dgc()', seed: 1_000_000 },
  { ...dgc, name: 'dgc(), nesterov', nesterov: true, seed: 2_500_000 },
  { ...dgc, name: 'dgc(), clipped', seed: 3_000_000, gradientScales: uneven, options: { ...options, clipNorm } },
  { ...dgc, name: 'dgc(), nesterov, dense warm-up', nesterov: true, seed: 6_000_000, options: denseWarmUp },
  { ...dgc, name: 'dgc(), no masking', seed: 12_200_000, options: { ...options, masking: false } },
  { ...dgc, name: 'dgc(), nesterov, no momentum correction', nesterov: true, seed: 13_000_000, options: { ...options, momentumCorrection: false } },
  { ...dgc, name: 'dgc(), rescaled residuals', seed: 14_000_000, learningRates: [0.05, 0.02], options: { ...options, rescaleResiduals: true } },
  { ...rival, ...clipped, name: 'noCompression(), clipped', method: 'noCompression', seed: 17_000_000 },
  { ...rival, name: 'gradientDropping()', method: 'gradientDropping', seed: 8_000_000 },
  { ...rival, ...clipped, name: 'gradientDropping(), nesterov, clipped', method: 'gradientDropping', nesterov: true, seed: 9_400_000 },
  { ...rival, ...clipped, name: 'oneBit(), clipped', method: 'oneBit', seed: 10_200_000 },
  { ...rival, ...clipped, name: 'ternGrad(), clipped', method: 'ternGrad', seed: 15_000_000 },
  { ...rival, ...clipped, name: 'qsgd(), nesterov, clipped', method: 'qsgd', nesterov: true, seed: 16_000_000 },
  { ...rival, ...clipped, ...brief, name: 'lowRank(), nesterov, clipped', method: 'lowRank', nesterov: true, seed: 20_500_000, options: { clipNorm: 24, rank: 2 } },
  { ...rival, ...clipped, name: 'powerSgd(), nesterov, clipped', method: 'powerSgd', nesterov: true, seed: 11_000_000 },
]; // prettier-ignore
const COMMON = ['dgc(), clipped', 'powerSgd(), nesterov, clipped'];
const CASES = casesWhere(({ name }) => COMMON.includes(name), ALL);

const clipsMean = (method: Case['method']) => method === 'noCompression' || method === 'lowRank';

type Snapshots = Record<string, number[][][]>;

let byRank: readonly Snapshots[];
beforeAll(async () => {
  const sizes = { tensors: TENSORS, cases: CASES };
  const input = { ...sizes, momentum: MOMENTUM, decay: DECAY };
  byRank = await runFixture<Snapshots>('compression-run.js', { ranks: RANKS, input });
}, 120_000);

describe.each(CASES)('$name', testCase => {
  const reference = referenceRun(testCase);

  test('every rank has the same bits', () => {
    const [first, ...others] = byRank;
    for (const other of others) expect(other[testCase.name]).toEqual(first![testCase.name]);
  });

  test('weights follow the float64 reference within float32 rounding', () => {
    // Float32 and float64 would choose different elements if two magnitudes next to the threshold were closer than
    // this, and different signs if a value were closer to 0.
    expect(reference.closestChoice).toBeGreaterThan(1e-6);
    const snapshots = byRank[0]![testCase.name]!;
    expect(snapshots).toHaveLength(testCase.steps / testCase.every);
    for (const [s, snapshot] of snapshots.entries()) {
      for (const [t, weights] of snapshot.entries()) {
        // A float32 is rounded by up to 2^(−24) = 6e-8 of itself, and a weight in each of up to 40 steps. Wrong rules
        // gave errors of 0.1 and more.
        expect(largestError(weights, reference.snapshots[s]![t]!)).toBeLessThan(1e-5);
      }
    }
  });

  test('clips some steps, if asked to, and not others', () => {
    if (testCase.options.clipNorm === undefined) expect(reference.clippedSteps).toBe(0);
    else expect(reference.clippedSteps).toBeGreaterThan(0);
    expect(reference.clippedSteps).toBeLessThan(testCase.steps * (clipsMean(testCase.method) ? 1 : RANKS));
  });
});

/**
 * In float64, slow and literal: gradients carry the factor 1/N from the start and are summed, and are clipped to
 * clipNorm · N^(−½). Each rank accumulates what it does not send: DGC its momenta (the paper's Algorithm 4), the others
 * its gradients, and their momentum is that of the average. TernGrad and QSGD accumulate nothing. For Nesterov the
 * velocity is kept as in Sutskever's form: w ← m·w + g, of which g + m·w counts. Without compression, and with low
 * rank, the sum is clipped to clipNorm.
 */
function referenceRun({ nesterov, seed, method, steps, every, gradientScales, learningRates, options }: Case) {
  const { clipNorm = Infinity, warmUp, warmUpSteps = 0 } = options;
  const { momentumCorrection = true, masking = true, rescaleResiduals = false } = options;
  const accumulates = method !== 'ternGrad' && method !== 'qsgd';
  const sizes = TENSORS.map(shape => shape.reduce((product, size) => product * size, 1));
  const weights = sizes.map((size, t) => [...normals(seed + t, size)]);
  const zeros = () => sizes.map(size => new Array<number>(size).fill(0));
  const ranks = Array.from({ length: RANKS }, () => ({ velocity: zeros(), accumulated: zeros() }));
  const senders = TENSORS.map((shape, t) => {
    if (method === 'noCompression') return undefined;
    const isSmall = shape.length < 2 || sizes[t]! < DENSE_BELOW;
    return isSmall ? SMALL_SENDERS[method] : SENDERS[method](shape.at(-1)!, t);
  });
  const sharedVelocity = zeros();
  const snapshots: number[][][] = [];
  let clippedSteps = 0;
  let closestChoice = Infinity;

  for (let step = 0; step < steps; step++) {
    const updates = zeros();
    const warming = step < warmUpSteps;
    const isDense = (t: number) => !senders[t] || (warmUp === 'dense' && warming);
    const clip = (gradients: number[][], limit: number) => {
      const norm = Math.sqrt(gradients.flat().reduce((sum, g) => sum + g * g, 0));
      if (norm <= limit) return;
      clippedSteps++;
      for (const gradient of gradients) gradient.forEach((g, i) => (gradient[i] = (g * limit) / norm));
    };
    const ownsMomentum = (t: number) => method === 'dgc' && momentumCorrection && !isDense(t);
    const rate = learningRates[step < steps / 2 ? 0 : 1];
    if (rescaleResiduals && step === steps / 2) {
      const scale = learningRates[0] / learningRates[1];
      for (const { accumulated } of ranks) for (const v of accumulated) v.forEach((value, i) => (v[i] = value * scale));
    }

    ranks.forEach(({ velocity, accumulated }, rank) => {
      const scale = gradientScales[step % gradientScales.length]!;
      const gradients = sizes.map((size, t) => {
        const c = normals(seed + 1000 * (1 + step) + 10 * rank + t, size);
        return weights[t]!.map((w, i) => (c[i]! * scale + DECAY * w) / RANKS);
      });
      if (!clipsMean(method)) clip(gradients, clipNorm / Math.sqrt(RANKS));
      gradients.forEach((gradient, t) => {
        const u = velocity[t]!;
        const v = isDense(t) ? updates[t]! : accumulated[t]!;
        if (!ownsMomentum(t)) return gradient.forEach((g, i) => (v[i]! += g));
        gradient.forEach((g, i) => {
          u[i] = MOMENTUM * u[i]! + g;
          v[i]! += nesterov ? g + MOMENTUM * u[i]! : u[i]!;
        });
      });
    });

    weights.forEach((w, t) => {
      const send = senders[t];
      if (send && !isDense(t)) {
        const values = ranks.map(({ accumulated }) => accumulated[t]!);
        const { sent, margin } = send(values, warming ? densityAt(step) : 1 - SPARSITY, step);
        closestChoice = Math.min(closestChoice, margin);
        ranks.forEach(({ velocity, accumulated }, rank) => {
          const [update, u, v] = [updates[t]!, velocity[t]!, accumulated[t]!];
          sent[rank]!.forEach((value, i) => {
            update[i]! += value;
            v[i] = accumulates ? v[i]! - value : 0;
            if (masking && value !== 0) u[i] = 0;
          });
        });
      }
    });
    if (clipsMean(method)) clip(updates, clipNorm);
    weights.forEach((w, t) => {
      if (!ownsMomentum(t)) {
        const velocity = sharedVelocity[t]!;
        updates[t]!.forEach((g, i) => {
          velocity[i] = MOMENTUM * velocity[i]! + g;
          updates[t]![i] = nesterov ? g + MOMENTUM * velocity[i]! : velocity[i]!;
        });
        // Each rank continues with the momentum of a dense warm-up: a third each, because the ranks are summed here.
        for (const { velocity: u } of ranks) u[t] = velocity.map(value => value / RANKS);
      }
      updates[t]!.forEach((update, i) => (w[i]! -= rate * update));
    });
    if ((step + 1) % every === 0) snapshots.push(weights.map(w => [...w]));
  }
  return { snapshots, clippedSteps, closestChoice };
}

/** 25 %, 6.25 % and 1.5625 % share the warm-up of 20 steps; 0.4 % and 0.1 % would be less than the final 1 %. */
function densityAt(step: number): number {
  if (step < 7) return 0.25;
  if (step < 14) return 0.0625;
  return 0.015625;
}
