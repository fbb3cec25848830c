import type { Declared, Margin, MethodResults, WorkloadResults } from '../../src/study/results';
import { summarise, type Training, tuningOf } from '../../src/study/summarise';
import { FACTS, generatedTrainings } from './generated-study';

const ACCURACY: Margin = { score: 'accuracy', better: 'higher', kind: 'absolute', worse: 0.1 };
const PERPLEXITY: Margin = { score: 'perplexity', better: 'lower', kind: 'relative', worse: 0.01 };

/** A training whose examples all have the score. */
function training(method: string, seed: number, fold: number, score: number, more: Partial<Training> = {}): Training {
  return {
    ...{
      workload: 'w',
      method,
      isTuning: false,
      options: {},
      learningRate: 0.1,
      seed,
      fold,
      score,
      logLoss: 1 - score,
    },
    ...{
      bytesSentPerRank: 10,
      denseBytesPerRank: 100,
      steps: 4,
      seconds: 3,
      examples: Array(4).fill(score) as number[],
    },
    curve: { step: [], loss: [], error: [], bytes: [], seconds: [] },
    ...more,
  };
}

/** The only workload of these trainings. */
function summary(
  trainings: readonly Training[],
  margin: Margin = ACCURACY,
  declared: Partial<Declared> = {},
): WorkloadResults {
  const controls = { w: { sameMethod: 'again', mustFail: 'bad' } };
  const facts = {
    ...FACTS,
    workloads: [{ name: 'w', data: 'none', parameters: 3, paper: { x: { ratio: 600, model: 'm' } } }],
  };
  const all = {
    ...FACTS.declared,
    margins: { w: margin },
    controls,
    ablation: { of: 'x', methods: ['y'] },
    ...declared,
  };
  return summarise(trainings, { ...facts, declared: all }).workloads[0]!;
}

const method = ({ methods }: WorkloadResults, name: string): MethodResults => methods.find(each => each.name === name)!;

const DENSE = [training('dense', 1, 0, 0.8), training('dense', 1, 1, 0.9), training('dense', 2, 0, 0.7), training('dense', 2, 1, 0.8)]; // prettier-ignore
const X = [training('x', 2, 1, 0.83), training('x', 1, 0, 0.78), training('x', 1, 1, 0.9), training('x', 2, 0, 0.71)];

test('folds are averaged first, then the seeds are compared', () => {
  const results = summary([...X, ...DENSE]);
  expect(results.methods.map(({ name }) => name)).toEqual(['dense', 'x']);
  const dense = method(results, 'dense');
  // The seeds have 0.85 and 0.75.
  expect(dense.mean).toBeCloseTo(0.8, 12);
  expect(dense.interval!.high).toBeCloseTo(0.8 + 12.7062 * 0.05, 5);
  expect(dense).toMatchObject({ differenceFromDense: null, logLossDifference: null, verdict: null, diverged: 0 });
  // They differ by −0.01 and +0.02.
  const { differenceFromDense, logLossDifference, ...x } = method(results, 'x');
  expect(differenceFromDense!.mean).toBeCloseTo(0.005, 12);
  expect(differenceFromDense!.low).toBeCloseTo(0.005 - 12.7062 * 0.015, 5);
  expect(logLossDifference!.mean).toBeCloseTo(-0.005, 12);
  expect(x.verdict).toBe('undecided');
  expect(x).toMatchObject({ bytesSentPerRank: 10, ratio: 10, seconds: 3, paper: { ratio: 600, model: 'm' } });
  expect(x.seeds.map(({ seed, fold, score }) => [seed, fold, score])).toEqual([[2, 1, 0.83], [1, 0, 0.78], [1, 1, 0.9], [2, 0, 0.71]]); // prettier-ignore
  expect(x.seeds[0]).not.toHaveProperty('examples');
});

test('the bootstrap draws examples, each averaged over the seeds, from all folds', () => {
  // By example: fold 0 differs by (−0.02 + 0.01) / 2, fold 1 by (0 + 0.03) / 2.
  const { differenceOverExamples } = method(summary([...DENSE, ...X]), 'x');
  expect(differenceOverExamples!.mean).toBeCloseTo(0.005, 12);
  expect(differenceOverExamples!.low!).toBeGreaterThanOrEqual(-0.005 - 1e-12);
  expect(differenceOverExamples!.high!).toBeLessThanOrEqual(0.015 + 1e-12);
  expect(differenceOverExamples!.high!).toBeGreaterThan(0.009);
});

const perplexities = (name: string, scores: readonly number[]): Training[] =>
  scores.map((score, i) => training(name, i, 0, score, { examples: Array(4).fill(Math.log(score)) as number[] }));

test('perplexities are compared as ratios, on the scale of logarithms', () => {
  const results = summary(
    [...perplexities('dense', [100, 200]), ...perplexities('x', [101.1, 202.2]), ...perplexities('z', [100.4, 200.8])],
    PERPLEXITY,
  );
  expect(method(results, 'dense').mean).toBeCloseTo(Math.sqrt(100 * 200), 9);
  for (const key of ['mean', 'low', 'high'] as const) {
    expect(method(results, 'x').differenceFromDense![key]).toBeCloseTo(0.011, 12);
    expect(method(results, 'x').differenceOverExamples![key]).toBeCloseTo(0.011, 12);
  }
  expect(method(results, 'x').verdict).toBe('fails');
  expect(method(results, 'z').verdict).toBe('passes');
});

/** Trainings of eight seeds that differ from dense by these amounts. */
const against = (name: string, differences: readonly number[]): Training[] =>
  differences.map((difference, i) => training(name, i, 0, 0.7 + 0.01 * i + difference));
const BASE = against('dense', Array(8).fill(0) as number[]);
const wobble = (middle: number, size: number): number[] =>
  [-1, 1, -2, 2, 0, 1, -1, 0].map(each => middle + size * each);

describe('the control that has the same method', () => {
  test.each([
    ['it passes, and its interval includes zero', wobble(0, 0.01), true],
    ['its interval excludes zero', wobble(0.05, 0.01), false],
    ['it does not pass', wobble(0, 0.3), false],
  ])('%s', (_, differences, held) => {
    expect(summary([...BASE, ...against('again', differences)]).controls.sameMethod).toEqual({ method: 'again', held });
  });
});

describe('the control that must fail', () => {
  test.each([
    ['it fails', wobble(-0.3, 0.01), 'fails', true],
    ['it is worse, if not surely by the margin', wobble(-0.1, 0.01), 'undecided', false],
    ['it is worse, but within the margin', wobble(-0.04, 0.01), 'passes', false],
    ['it may be as good', wobble(-0.1, 0.2), 'undecided', false],
    ['it is better', wobble(0.1, 0.01), 'passes', false],
    ['it diverged', [NaN, ...wobble(0, 0.01).slice(1)], 'fails', true],
  ])('%s', (_, differences, verdict, held) => {
    const results = summary([...BASE, ...against('bad', differences)]);
    expect(method(results, 'bad').verdict).toBe(verdict);
    expect(results.controls).toEqual({ sameMethod: null, mustFail: { method: 'bad', held } });
  });
});

test('a method that diverged fails, and has no mean', () => {
  const diverged = [
    training('x', 1, 0, NaN, { examples: [], logLoss: Infinity }),
    ...X.filter(({ seed, fold }) => seed + fold !== 1),
  ];
  const x = method(summary([...DENSE, ...diverged]), 'x');
  expect(x).toMatchObject({ verdict: 'fails', diverged: 1, mean: null, interval: null, differenceFromDense: null });
  expect(x).toMatchObject({ logLoss: null, logLossDifference: null, differenceOverExamples: null });
  expect(x.seeds[0]).toMatchObject({ score: null, logLoss: null });
});

test('what a training sent before it diverged does not count', () => {
  const sent = (seed: number, score: number, bytesSentPerRank: number, denseBytesPerRank: number) =>
    training('x', seed, 0, score, { bytesSentPerRank, denseBytesPerRank, ...(score > 0 ? {} : { examples: [] }) });
  const dense = [1, 2].map(seed => training('dense', seed, 0, 0.9));
  const ratios = (scores: number[]) => {
    const xs = scores.map((score, i) => sent(i + 1, score, 10, score > 0 ? 100 : 0));
    return method(summary([...dense, ...xs]), 'x').ratio;
  };
  expect([ratios([0.9, 0.9]), ratios([0.9, NaN]), ratios([NaN, NaN])]).toEqual([10, 10, null]);
});

test('nothing is decided if dense diverged', () => {
  const [first, ...others] = DENSE;
  const results = summary([{ ...first!, score: NaN, examples: [] }, ...others, ...X]);
  expect(method(results, 'x')).toMatchObject({ verdict: 'undecided', diverged: 0, differenceFromDense: null });
});

test('one seed has no interval, and decides nothing', () => {
  const { interval, verdict } = method(summary([training('dense', 1, 0, 0.8), training('x', 1, 0, 0.8)]), 'x');
  expect(interval).toEqual({ mean: 0.8, low: null, high: null });
  expect(verdict).toBe('undecided');
});

test('variants are compared with the full method too, and stand apart', () => {
  const { methods, ablation } = summary([...DENSE, ...X, ...X.map(each => ({ ...each, method: 'y', score: each.score - 0.1, examples: [each.score - 0.1] }))].map(each => ({ ...each, examples: [each.score] }))); // prettier-ignore
  expect(methods.map(({ name }) => name)).toEqual(['dense', 'x']);
  expect(ablation).toHaveLength(1);
  expect(ablation[0]!.name).toBe('y');
  expect(ablation[0]!.differenceFromFull!.mean).toBeCloseTo(-0.1, 12);
  expect(ablation[0]!.differenceFromDense!.mean).toBeCloseTo(-0.095, 12);
});

test('the ratio after the warm-up is that of the last quarter of the steps', () => {
  const curve = {
    step: [1, 2, 3, 4],
    loss: [1, 1, NaN, 1.2345678],
    error: [1, 1, 1, 1],
    bytes: [5, 9, 9.5, 10],
    seconds: [1, 2, 3, 4],
  };
  const { ratio, ratioAfterWarmUp, seeds } = method(summary([training('dense', 1, 0, 0.8, { curve })]), 'dense');
  expect(ratio).toBe(10);
  expect(ratioAfterWarmUp).toBe(50); // 25 bytes a step against half a byte
  expect(seeds[0]!.curve.loss).toEqual([1, 1, null, 1.2346]);
});

describe('tuning', () => {
  const tried = (learningRate: number, seed: number, score: number, logLoss = 1): Training =>
    training('x', seed, 0, score, { learningRate, logLoss, isTuning: true });

  test('takes the best mean, by the log-loss among equals, and no rate that diverged', () => {
    const trainings = [
      ...[tried(0.1, 7, 0.8, 0.5), tried(0.1, 8, 0.6, 0.5)],
      ...[tried(0.2, 7, 0.7, 0.4), tried(0.2, 8, 0.7, 0.4)],
      ...[tried(0.4, 7, 0.9), tried(0.4, 8, NaN)],
    ];
    expect(tuningOf(trainings, ACCURACY)).toEqual([
      {
        method: 'x',
        learningRate: 0.1,
        seeds: [7, 8],
        mean: expect.closeTo(0.7, 9) as number,
        logLoss: 0.5,
        best: false,
      },
      { method: 'x', learningRate: 0.2, seeds: [7, 8], mean: 0.7, logLoss: 0.4, best: true },
      { method: 'x', learningRate: 0.4, seeds: [7, 8], mean: null, logLoss: 1, best: false },
    ]);
  });

  test('takes the lowest perplexity', () => {
    const rows = tuningOf([tried(0.1, 7, 120), tried(0.2, 7, 110), tried(0.4, 7, 115)], PERPLEXITY);
    expect(rows.find(({ best }) => best)).toMatchObject({ learningRate: 0.2, mean: expect.closeTo(110, 9) as number });
  });

  test('is no part of the comparison', () => {
    const { methods, tuning } = summary([...DENSE, ...X, tried(0.5, 1, 0.1)]);
    expect(tuning).toHaveLength(1);
    expect(methods[1]!.seeds).toHaveLength(4);
  });
});

describe('trainings that do not fit together', () => {
  test.each<[string, Training[], string]>([
    ['a fold is missing', [...DENSE, ...X.slice(1)], 'The training of w with x, seed 2, fold 1 is missing.'],
    [
      'dense lacks a seed',
      [...DENSE, ...X, training('x', 3, 0, 0.8)],
      'The training of w with x, seed 3, fold 0 has no pair among those of dense',
    ],
    ['one is there twice', [...DENSE, ...X, X[0]!], 'The training of w with x, seed 2, fold 1 is there twice.'],
    ['dense is missing', X, 'w has no trainings of dense'],
    [
      'examples have another mean',
      [...DENSE, ...X.slice(1), { ...X[0]!, examples: [1, 1, 1, 1] }],
      'seed 2, fold 1 has examples with the mean 1, but it should be 0.83.',
    ],
    ['there are no examples', [{ ...DENSE[0]!, examples: [] }, ...DENSE.slice(1)], 'has examples with the mean NaN'],
    [
      'a seed has other examples',
      [...DENSE, ...X.slice(1), { ...X[0]!, examples: [0.83] }],
      'seed 2, fold 1 has 1 test examples, but The training of w with dense, seed 1, fold 1 has 4.',
    ],
    [
      'learning rates differ',
      [...DENSE, ...X.slice(1), { ...X[0]!, learningRate: 0.2 }],
      'has other options or another learning rate than',
    ],
    [
      'options differ',
      [...DENSE, ...X.slice(1), { ...X[0]!, options: { sparsity: 0.9 } }],
      'has other options or another learning rate than',
    ],
  ])('%s', (_, trainings, message) => {
    expect(() => summary(trainings)).toThrow(message);
  });

  test('the workload has no margin, or one of zero', () => {
    expect(() => summary(DENSE, { ...ACCURACY, worse: 0 })).toThrow('The declaration needs a margin above 0 for w.');
    expect(() => summary(DENSE, ACCURACY, { margins: {} })).toThrow('The declaration needs a margin above 0 for w.');
  });
});

test('a generated study has the verdicts that it was made for', () => {
  const { workloads } = summarise(generatedTrainings(8, 2), FACTS);
  expect(workloads).toHaveLength(3);
  for (const { methods, ablation, controls, tuning } of workloads) {
    const verdicts = Object.fromEntries([...methods, ...ablation].map(({ name, verdict }) => [name, verdict]));
    expect(verdicts).toMatchObject({
      ...{ dense: null, 'dense again': 'passes', dgc: 'passes', 'gradient dropping': 'fails', TernGrad: 'fails' },
      ...{ 'dgc without momentum correction': 'fails', 'dgc without masking': 'passes' },
    });
    expect(controls.mustFail).toEqual({ method: 'gradient dropping', held: true });
    expect(tuning.filter(({ best }) => best).map(({ learningRate }) => learningRate)).toEqual(Array(8).fill(0.1));
  }
});
