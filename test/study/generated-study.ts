import { normalNumber, uniformNumbers } from '../../src/bench/random';
import type { Margin, StudyFacts, WorkloadFacts } from '../../src/study/results';
import type { Training } from '../../src/study/summarise';

/** A method of a generated study. Gains are what it adds to the score, in margins: above 0 is better than dense. */
interface MethodModel {
  readonly name: string;
  readonly gain: number;
  readonly ratio: number;
  readonly isVariant?: boolean;
}

const METHODS: readonly MethodModel[] = [
  { name: 'dense', gain: 0, ratio: 1 },
  { name: 'dense again', gain: 0, ratio: 1 },
  { name: 'dgc', gain: -0.05, ratio: 240 },
  { name: 'gradient dropping', gain: -4, ratio: 260 },
  { name: '1-bit SGD', gain: -0.8, ratio: 13 },
  { name: 'TernGrad', gain: -2, ratio: 9 },
  { name: 'QSGD', gain: -0.1, ratio: 6 },
  { name: 'PowerSGD', gain: 0.1, ratio: 40 },
  { name: 'dgc without momentum correction', gain: -3, ratio: 240, isVariant: true },
  { name: 'dgc without masking', gain: -0.3, ratio: 240, isVariant: true },
];

/** A workload: a score without noise, and how loss and error fall. */
interface WorkloadModel extends WorkloadFacts {
  readonly margin: Margin;
  readonly score: number;
  readonly loss: readonly [first: number, last: number];
  readonly steps: number;
}

const WORKLOADS: readonly WorkloadModel[] = [
  {
    ...{ name: 'digits', data: '1,797 images of handwritten digits (UCI), 5 folds', parameters: 33_738 },
    paper: { dgc: { ratio: 277, model: 'ResNet-50' } },
    margin: { score: 'accuracy', better: 'higher', kind: 'absolute', worse: 0.003 },
    ...{ score: 0.975, loss: [2.3, 0.02], steps: 900 },
  },
  {
    ...{ name: 'language', data: '200,000 words of English documentation', parameters: 1_412_000 },
    paper: { dgc: { ratio: 462, model: 'LSTM on PTB' } },
    margin: { score: 'perplexity', better: 'lower', kind: 'relative', worse: 0.01 },
    ...{ score: 96, loss: [8.6, 4.4], steps: 1_600 },
  },
  {
    ...{ name: 'speech', data: 'synthetic utterances, made with a seed', parameters: 402_115 },
    paper: { dgc: { ratio: 608, model: 'Deep Speech' } },
    margin: { score: 'label error rate', better: 'lower', kind: 'absolute', worse: 0.003 },
    ...{ score: 0.08, loss: [60, 1.4], steps: 1_200 },
  },
];

export const FACTS: StudyFacts & { readonly workloads: readonly WorkloadFacts[] } = {
  machine: {
    ...{ processor: 'Imaginary Processor <2>', cores: 2, memoryBytes: 8 * 2 ** 30 },
    ...{ system: 'linux x64', node: 'v20.20.2', gradring: '0.1.0' },
  },
  startedAt: '2020-02-02T03:04:05.678Z',
  finishedAt: '2020-02-03T04:05:06.789Z',
  command: 'gradring study --json study.json',
  programs: ['0123456789ab'],
  ranks: 4,
  declared: {
    margins: Object.fromEntries(WORKLOADS.map(({ name, margin }) => [name, margin])),
    tests: { confidence: 0.95, resamples: 300, seed: 7 },
    baseline: 'dense',
    controls: Object.fromEntries(
      WORKLOADS.map(({ name }) => [name, { sameMethod: 'dense again', mustFail: 'gradient dropping' }]),
    ),
    ablation: { of: 'dgc', methods: METHODS.filter(({ isVariant }) => isVariant).map(({ name }) => name) },
    notes: ['Each method had three learning rates to choose from, on seeds that are not used here.'],
  },
  workloads: WORKLOADS.map(({ name, data, parameters, paper }) => ({ name, data, parameters, paper: paper! })),
  limits: ['No ImageNet and no LibriSpeech: the models are small.', 'All ranks share one machine.'],
};

/** Trainings that look like real ones. `seeds` and `folds` of each workload, with tuning on two more seeds. */
export function generatedTrainings(seeds = 8, folds = 5): Training[] {
  return WORKLOADS.flatMap((workload, w) =>
    METHODS.flatMap((method, m) => {
      const random = uniformNumbers(1_000 + 100 * w + m);
      const grid = Array.from({ length: seeds * folds }, (_, i) => [1 + Math.floor(i / folds), i % folds] as const);
      const rates = method.isVariant ? [] : [0.05, 0.1, 0.2];
      const tuning = rates.flatMap(rate => [101, 102].map(seed => [seed, rate] as const));
      return [
        ...grid.map(([seed, fold]) => training(workload, method, random, { seed, fold })),
        ...tuning.map(([seed, learningRate]) =>
          training(workload, method, random, { seed, fold: 0, learningRate, isTuning: true }),
        ),
      ];
    }),
  );
}

function training(
  workload: WorkloadModel,
  { name, gain, ratio }: MethodModel,
  random: () => number,
  place: { seed: number; fold: number; learningRate?: number; isTuning?: boolean },
): Training {
  const { kind, better, worse } = workload.margin;
  const loss = (Math.abs((place.learningRate ?? 0.1) - 0.1) > 0.01 ? 3 : 0) - gain;
  const shift = worse * (loss + 0.35 * normalNumber(random)) * (better === 'higher' ? -1 : 1);
  const target = kind === 'relative' ? Math.log(workload.score) + shift : workload.score + shift;
  // The same examples are hard for all methods.
  const hardness = uniformNumbers(place.fold);
  const examples = Float64Array.from({ length: 80 }, () => 0.2 * hardness() + 0.002 * normalNumber(random));
  const off = target - examples.reduce((sum, value) => sum + value, 0) / examples.length;
  const score = kind === 'relative' ? Math.exp(target) : target;

  const { steps, parameters } = workload;
  const [first, last] = workload.loss;
  const dense = steps * parameters * 6;
  const speed = 1 + 0.1 * random();
  const step = Array.from({ length: 30 }, (_, i) => ((i + 1) * steps) / 30);
  const fall = (from: number, to: number): number[] =>
    step.map(each => to + (from - to) * Math.exp((-6 * each) / steps) * (1 + 0.1 * normalNumber(random)));
  const finalError = better === 'higher' ? 1 - score : score;
  // Sparse methods send more in the warm-up.
  const sent = step.map(
    each => (dense / ratio) * (each / steps) * (ratio > 100 ? 1 + (0.3 * steps) / (each + steps) : 1),
  );
  return {
    ...{ workload: workload.name, method: name, options: name === 'dgc' ? { sparsity: 0.999 } : {} },
    ...{
      learningRate: 0.1,
      isTuning: false,
      ...place,
      score,
      logLoss: last * (1 - gain / 50 + 0.005 * normalNumber(random)),
      steps,
    },
    ...{ bytesSentPerRank: sent.at(-1)!, denseBytesPerRank: dense, seconds: 50 * speed },
    examples: examples.map(value => value + off),
    curve: {
      ...{ step, loss: fall(first, last * (1 - gain / 10)), bytes: sent },
      error: fall(better === 'higher' ? 0.9 : finalError * 8, finalError),
      seconds: step.map(each => (50 * speed * each) / steps),
    },
  };
}
