import type { Controls, Declared, Margin, PaperRatio } from './results';

/** A method, and the options of its compression. */
export interface Method {
  readonly name: string;
  /** The function of gradring that makes the compression. */
  readonly method: string;
  /** The file of `customCompression`. */
  readonly module?: string;
  /** The hash of that file. If it changes, its trainings are run again. */
  readonly moduleHash?: string;
  /** `warmUp` is the length of the warm-up as a share of the training; `steps: 'all'` is the length of the training. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Further options of `ring.wrap`. */
  readonly wrap?: Readonly<Record<string, unknown>>;
  /** The method whose learning rate it takes, if it has none of its own. */
  readonly ratesOf?: string;
  /** Whether it is compared with the method that it is a variant of, on fewer seeds. */
  readonly isVariant?: true;
  /** Added to the seed of its trainings. They are compared with those of the seed all the same. */
  readonly seedOffset?: number;
  /** Each rank trains on the data of the rank that is so many places after it. */
  readonly partOffset?: number;
}

/** What is trained, how often, and with which methods. */
export interface WorkloadPlan {
  readonly name: string;
  readonly margin: Margin;
  readonly controls: Controls;
  readonly seeds: readonly number[];
  readonly folds: readonly number[];
  readonly methods: readonly Method[];
  /** Where the search for a method's learning rate begins ({@link ratesToTry}). If there is no search, it holds. */
  readonly learningRate: number;
  /** The rates of methods that have others, if there is no search. */
  readonly learningRates?: Readonly<Record<string, number>>;
  /** The seeds with which rates are tried. None: there is no search. */
  readonly tuningSeeds: readonly number[];
  /** The fold on which rates are tried. */
  readonly tuningFold: number;
  /** The seeds that train the variants of a method: fewer than the others. */
  readonly ablationSeeds: readonly number[];
  /** How many ranks it has, if not {@link RANKS}. */
  readonly ranks?: number;
  readonly paper?: Readonly<Record<string, PaperRatio>>;
}

export const RANKS = 4;

const BASELINE = 'dense';
/** As the baseline, but the gradients of the ranks are added in another order: only the rounding differs. */
const OTHER_ROUNDING = 'dense, other rounding';
const MUST_FAIL = 'gradient dropping';
/** As the baseline, but clipped as with a compression: the gradient of each rank, not their mean. */
const CLIPPED_BY_RANK = 'dense, clipped by rank';
/** DGC whose bytes do not grow with the ranks. */
const SCATTER = 'DGC, scatter';
/** An exchange after every 16 steps of each rank. */
const LOCAL_STEPS = 'local steps';
const CONTROLS: Controls = { sameMethod: OTHER_ROUNDING, mustFail: MUST_FAIL };
const SPARSITY = 0.999;
/** The share of a training that is DGC's warm-up. The paper has 4 of 164 epochs for ResNet, 1 of 40 for the LSTM. */
const WARM_UP = 0.2;

const ACCURACY: Margin = { score: 'accuracy', better: 'higher', kind: 'absolute', worse: 0.003 };
const PERPLEXITY: Margin = { score: 'perplexity', better: 'lower', kind: 'relative', worse: 0.01 };
const LABEL_ERRORS: Margin = { score: 'label error rate', better: 'lower', kind: 'absolute', worse: 0.003 };

type Options = Method['options'];

/** Those of each workload. `clip` is empty, or the norm to which gradients are clipped. */
function methodsFor(clip: Options): Method[] {
  const dgc = { method: 'dgc', options: { sparsity: SPARSITY, warmUp: WARM_UP, ...clip } };
  const chosen = { method: 'dgc', options: { steps: 'all', ...clip } };
  const before = { values: 'float16', clipAt: 'rank' };
  const clippedByRank = { sparsity: 0, warmUp: 0, ...clip };
  const clipsMean = { ...clip, ...('clipNorm' in clip && { clipAt: 'mean' }) };
  return [
    { name: BASELINE, method: 'noCompression', options: clip },
    { name: OTHER_ROUNDING, method: 'noCompression', options: clip, ratesOf: BASELINE, partOffset: 1 },
    ...('clipNorm' in clip ? [{ name: CLIPPED_BY_RANK, method: 'dgc', options: clippedByRank }] : []),
    { name: 'low rank', method: 'lowRank', options: clip },
    { name: 'DGC, chosen sparsity', ...chosen },
    { name: 'DGC, chosen sparsity, before', ...chosen, options: { ...chosen.options, ...before } },
    { name: 'DGC', ...dgc },
    { name: MUST_FAIL, method: 'gradientDropping', options: { sparsity: SPARSITY, ...clip } },
    { name: 'QSGD', method: 'qsgd', options: clipsMean },
    { name: 'PowerSGD', method: 'powerSgd', options: { rank: 2, ...clipsMean } },
  ];
}

/** What gradring has beyond the paper, and costs accuracy. */
function methodsBeyond(clip: Options): Method[] {
  return [
    { name: SCATTER, method: 'dgc', options: { steps: 'all', ...clip, route: 'scatter' } },
    { name: 'dense, overlap', method: 'noCompression', options: clip, wrap: { overlap: 1 } },
    { name: 'low rank, overlap', method: 'lowRank', options: clip, wrap: { overlap: 1 } },
  ];
}

const RESNET = { DGC: { ratio: 277, model: 'ResNet-50 on ImageNet' } };

const LANGUAGE_MODEL = { DGC: { ratio: 462, model: 'two LSTM layers of 1500 on the Penn Treebank' } };

const LONG = 'long-language';
const MANY_RANKS = 'language-16';
const LOCAL = 'language-local';
/** The workloads that have no quick form: it would be that of the language model. */
const NOT_QUICK = [LONG, MANY_RANKS, LOCAL];
const LONG_METHODS = [BASELINE, OTHER_ROUNDING, CLIPPED_BY_RANK, 'DGC', MUST_FAIL];

/** With a variant of DGC: masking cost accuracy with the digits of the first study, and helped with its speech. */
function longMethods(clip: Options): Method[] {
  const methods = methodsFor(clip).filter(({ name }) => LONG_METHODS.includes(name));
  const dgc = methods.find(({ name }) => name === 'DGC')!;
  const unmasked = { ...dgc.options, masking: false };
  return [...methods, { ...dgc, name: 'DGC without masking', options: unmasked, isVariant: true }];
}

const MANY_RANKS_METHODS = [BASELINE, OTHER_ROUNDING, 'DGC, chosen sparsity', SCATTER, MUST_FAIL];

/** Rounds of local steps, and what they are compared with: methods that exchange every step. */
function localMethods(clip: Options): Method[] {
  const exchanged = [BASELINE, OTHER_ROUNDING, MUST_FAIL];
  const outer = { learningRate: 1, momentum: 0.4 };
  return [
    ...methodsFor(clip).filter(({ name }) => exchanged.includes(name)),
    {
      ...{ name: LOCAL_STEPS, method: 'dgc', options: { sparsity: 0.95, warmUpEpochs: 0, values: 'log4' } },
      wrap: { localSteps: 16, localClipNorm: 0.5, outer },
    },
  ];
}

const EIGHT_SEEDS = [41, 42, 43, 44, 45, 46, 47, 48];
const SIX_SEEDS = [61, 62, 63, 64, 65, 66];
/** 16 ranks share the cores of one machine, so each training takes minutes. */
const FOUR_SEEDS = SIX_SEEDS.slice(0, 4);

const WORKLOADS: readonly WorkloadPlan[] = [
  {
    // Rates are tried on the images of a fold that does not count.
    ...{ name: 'digits', margin: ACCURACY, controls: CONTROLS, seeds: EIGHT_SEEDS, folds: [0, 1, 2, 3] },
    ...{ learningRate: 0.05, tuningSeeds: [301, 302, 303], tuningFold: 4, ablationSeeds: [] },
    ...{ methods: methodsFor({}), paper: RESNET },
  },
  {
    ...{ name: 'language', margin: PERPLEXITY, controls: CONTROLS, seeds: SIX_SEEDS, folds: [0] },
    ...{ learningRate: 20, tuningSeeds: [301], tuningFold: 0, ablationSeeds: [] },
    methods: [...methodsFor({ clipNorm: 0.25 }), ...methodsBeyond({ clipNorm: 0.25 })],
    paper: LANGUAGE_MODEL,
  },
  {
    ...{ name: LONG, margin: PERPLEXITY, controls: CONTROLS, seeds: SIX_SEEDS, folds: [0] },
    ...{ learningRate: 1.414, tuningSeeds: [301], tuningFold: 0, ablationSeeds: SIX_SEEDS.slice(0, 3) },
    methods: longMethods({ clipNorm: 0.25 }),
    paper: LANGUAGE_MODEL,
  },
  {
    // The language model of four ranks, with a quarter of the batch on each rank.
    ...{ name: MANY_RANKS, margin: PERPLEXITY, controls: CONTROLS, seeds: FOUR_SEEDS, folds: [0], ranks: 16 },
    ...{ learningRate: 20, tuningSeeds: [], tuningFold: 0, ablationSeeds: [] },
    learningRates: { [MUST_FAIL]: 28.28 },
    methods: [...methodsFor({ clipNorm: 0.25 }), ...methodsBeyond({ clipNorm: 0.25 })].filter(({ name }) =>
      MANY_RANKS_METHODS.includes(name),
    ),
  },
  {
    // Plain SGD, and longer than the long language model: the longer a training is, the less do local steps lose.
    ...{ name: LOCAL, margin: PERPLEXITY, controls: CONTROLS, seeds: SIX_SEEDS, folds: [0] },
    ...{ learningRate: 14.14, tuningSeeds: [], tuningFold: 0, ablationSeeds: [] },
    ...{ learningRates: { [LOCAL_STEPS]: 10, [MUST_FAIL]: 20 }, methods: localMethods({ clipNorm: 0.25 }) },
  },
  {
    ...{ name: 'speech', margin: LABEL_ERRORS, controls: CONTROLS, seeds: SIX_SEEDS, folds: [0] },
    ...{ learningRate: 0.02828, tuningSeeds: [301], tuningFold: 0, ablationSeeds: [] },
    methods: methodsFor({ clipNorm: 10 }),
    paper: { DGC: { ratio: 608, model: 'Deep Speech 2 on LibriSpeech' } },
  },
];

/** The workloads of a study. The quick form has less of everything, and shows nothing but that it works. */
export function workloadPlans(quick: boolean): readonly WorkloadPlan[] {
  if (!quick) return WORKLOADS;
  return WORKLOADS.filter(({ name }) => !NOT_QUICK.includes(name)).map(plan => ({
    ...plan,
    ...{ seeds: [1, 2], folds: plan.folds.slice(0, 1), ablationSeeds: [], tuningSeeds: [] },
    methods: plan.methods.filter(({ isVariant }) => !isVariant),
  }));
}

/** What is declared of these workloads before the first training. */
export function declarationOf(plans: readonly WorkloadPlan[], quick: boolean): Declared {
  const variants = plans.flatMap(({ methods }) => methods.filter(({ isVariant }) => isVariant).map(({ name }) => name));
  return {
    margins: Object.fromEntries(plans.map(({ name, margin }) => [name, margin])),
    tests: { confidence: 0.95, resamples: 10_000, seed: 1 },
    baseline: BASELINE,
    controls: Object.fromEntries(plans.map(({ name, controls }) => [name, controls])),
    ...(variants.length > 0 && { ablation: { of: 'DGC', methods: [...new Set(variants)] } }),
    notes: quick ? ['This was a quick study: its trainings are far too short and too few to show anything.'] : NOTES,
  };
}

/** What a reader must know of the declaration. */
const NOTES: readonly string[] = [
  'This is the second study. The results of the first were known. Its margins and tests hold again; the seeds are new, and so are the utterances of the speech.',
  'The rule for what ring.wrap(optimizer) does by default, declared with this study: in a short training it is DGC with a chosen sparsity, if that passes on digits, language and speech, at a ratio of 60 or more on each. Otherwise it is the method that passes on most of the three at that ratio, and of several such methods the one that sends fewer bytes. In a training so long that DGC at 99.9 % sends each value ten times or more, it is DGC at 99.9 %, as in the paper.',
  'At first there were twelve seeds of the digits, and eight of the others. The machine was lost with all trainings of the short language model, and they were begun anew. There are eight and six seeds since then. Only trainings of the search for learning rates were known when that was declared.',
  'Low rank, and DGC with a chosen sparsity, were made after the first study, because DGC had lost accuracy in these short trainings. A simulation chose what to try. Their settings were found with seeds that do not count (901, 911, 912, 920 to 929), for the language model and the speech on rows and utterances that do not count, for the digits mostly on the fold that does not count; seeds 911 and 912 were tested on the folds 0 and 1.',
  'All methods have the same search for a learning rate, on seeds and test data that do not count. It tries a first rate, and rates a factor of the square root of 2 above and below. While the best is the highest or the lowest of them, it tries the next one beyond, up to eight rates. The same first rate holds for all methods: a good one for training without compression.',
  'The digits are covered with noise, because as they are they cannot tell methods apart. This was found with dense and gradient dropping alone, before the first study.',
  'The long language model was declared later than the other workloads, when 18 trainings of the short one were known, none of which counts. It is the claim of the paper at a length at which 99.9 % is enough: 10,000 steps, with momentum. It was chosen with dense and gradient dropping alone, on rows and a seed (901) that do not count: at this length, and with the first rate, gradient dropping was 2.1 % worse than dense. A simulation had shown before that with the digits, and without momentum, gradient dropping loses too little in a long training to tell methods apart. DGC was not looked at.',
  'Dense, other rounding, begins from the same weights as dense, as all methods do, and shows how large a difference chance alone makes. (With fewer than three ranks the rounding is the same.) Dense, clipped by rank, clips the gradient of each rank instead of their mean, as DGC at 99.9 % and gradient dropping do. Low rank, QSGD and PowerSGD clip the mean.',
  'DGC with scatter, and dense and low rank with overlap, were declared when the results of the other methods were known, and before any training of theirs. They have the margins, tests, seeds and the search of all. They were declared for the digits and the speech, too. When the language model had shown that they lose accuracy, the machine was used for other workloads instead. Of the digits one training of the search for a rate had been made, which is not kept.',
  'Language-16 is the language model with the same batch on 16 ranks instead of four. It was declared after the results of four ranks, and takes the learning rates that were best there. It has the first four of its seeds. Six were declared at first. When three trainings had been made, which take minutes each, and nobody had compared them, there were four.',
  'Language-local is the language model on all of the text, trained for 12,000 steps. It was declared when the results of the other workloads were known. Its settings were found on rows and a seed (901) that do not count: dense with four learning rates, local steps with eleven settings, gradient dropping with one.',
  'DGC with a chosen sparsity, before, is what dgc() without a sparsity did in the first study: it sends values as float16, and clips each rank. Now it sends them in 4 bits, and clips the mean where there is no momentum.',
];

/** The notes of a study that is trained on data of the user. */
export const OTHER_DATA_NOTES: readonly string[] = [
  'The margins, the seeds and the learning rates were declared for other data.',
];

/** What no study shows that has only the data of gradring. */
export const OWN_DATA_LIMITS: readonly string[] = [
  'ImageNet, the Penn Treebank and LibriSpeech were not trained.',
  'The speech is synthetic, and the text is the source of a program.',
];

/** What no study of these workloads shows. */
export const LIMITS: readonly string[] = [
  'Models of the sizes of the paper were not trained.',
  'The ranks of a training shared one machine, so the seconds are not those of a cluster. They also depend on other work on the machine. If the study was moved, they come from several machines.',
  `The warm-up is ${WARM_UP * 100} % of each training, far more than in the paper, because the trainings are far shorter.`,
];
