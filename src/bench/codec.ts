import type { Argv, CommandModule, Options } from 'yargs';
import { SharedHeap } from '../memory/shared-heap';
import { VALUE_FORMATS, type ValueFormat } from '../compression/value-format';
import { instantiateKernels } from '../kernels/wasm-kernels';
import { isCount, JSON_OPTION, parseName, parseNames, parseNumber, parseNumbers, TEXT_OPTION } from '../command-line';
import { type CodecCase, type CodecSizes, measureCodec } from './codec-measurement';
import { type Distribution, GradientSource } from './gradient-source';
import { type ModelName, MODELS } from './models/models';
import { elementCountOf } from './models/tensor-shape';
import { writeResults } from './results';
import type { Column } from './table';

/** One line of `gradring bench codec --json`. */
export interface CodecRow extends CodecSizes {
  readonly bench: 'codec';
  readonly model: ModelName;
  readonly values: ValueFormat;
  readonly density: number;
  readonly distribution: Distribution;
  readonly steps: number;
  readonly seed: number;
}

const MODEL_NAMES = Object.keys(MODELS) as ModelName[];
/** Those of which every element has its own size; the others are for the selection's corner cases. */
const GRADIENT_DISTRIBUTIONS = ['normal', 'laplace'] as const satisfies Distribution[];

const OPTIONS = {
  model: {
    ...TEXT_OPTION,
    default: 'resnet50,alexnet,vgg16-bn,lstm-2x1500,deepspeech2',
    describe: `The model whose tensors are sent; several with commas: ${MODEL_NAMES.join(', ')}, or all`,
  },
  values: {
    ...TEXT_OPTION,
    default: 'float16,int8',
    describe: `The format of the values; several with commas: ${VALUE_FORMATS.join(', ')}`,
  },
  density: {
    ...TEXT_OPTION,
    default: '0.001',
    describe: 'The fraction of each large tensor that is sent; several with commas',
  },
  distribution: {
    ...TEXT_OPTION,
    default: 'normal' satisfies Distribution,
    describe: `The distribution of the gradients' values: ${GRADIENT_DISTRIBUTIONS.join(', ')}`,
  },
  steps: {
    ...TEXT_OPTION,
    default: '3',
    describe: 'How many steps are trained; the bytes of the last one are counted',
  },
  seed: { ...TEXT_OPTION, default: '1', describe: "The seed of the gradients' values" },
  json: JSON_OPTION,
} as const satisfies Record<string, Options>;

/** `gradring bench codec`: how many bytes a step of a model takes on the wire. */
export const codecBenchmark: CommandModule = {
  command: 'codec',
  describe: 'Count the bytes that a step of well-known models sends',
  builder: (yargs: Argv) =>
    yargs
      .usage(
        '$0 bench codec [options]\n\nCounts the bytes that a rank sends in a sparse step of a well-known model, with all ' +
          'headers and framing. The shapes are those of the model; the gradients are random. Beside the bits of an index ' +
          'is the entropy, the least that any code can take. Each result is decoded again and compared.',
      )
      .options(OPTIONS)
      .example('$0 bench codec', 'five models with two formats')
      .example('$0 bench codec --model resnet50 --values float32,log4', 'other formats')
      .example('$0 bench codec --model all --density 0.25,0.001 --json', 'for programs'),
  handler: async parsed => {
    const text = parsed as unknown as Words;
    const cases = casesOf(text);
    const wantedCount = { option: 'steps', words: 'a whole number from 1 on', accepts: isCount };
    const measurements = measurementsOf(cases, {
      distribution: parseName(text.distribution, 'distribution', GRADIENT_DISTRIBUTIONS),
      steps: parseNumber(text.steps, wantedCount),
      seed: parseNumber(text.seed, {
        option: 'seed',
        words: 'a whole number from 0 to 4294967295',
        accepts: value => Number.isInteger(value) && value >= 0 && value < 2 ** 32,
      }),
    });
    await writeResults(measurements, {
      json: parsed['json'] as boolean,
      columns: COLUMNS,
      describe: index => {
        const { name, format, density } = cases[index]!;
        return `${name}, ${format}, density ${density}`;
      },
    });
  },
};

/** The options' values, as they were typed. */
type Words = Record<Exclude<keyof typeof OPTIONS, 'json'>, string>;

interface NamedCase extends CodecCase {
  readonly name: ModelName;
}

const COLUMNS: readonly Column<CodecRow>[] = [
  { heading: 'model', value: row => row.model },
  { heading: 'values', value: row => row.values },
  { heading: 'density', value: row => row.density, decimals: 'all' },
  { heading: 'dense bytes', value: row => row.denseBytes, decimals: 0 },
  { heading: 'wire bytes', value: row => row.wireBytes, decimals: 0 },
  { heading: 'ratio', value: row => row.compressionRatio, decimals: 1 },
  { heading: 'index bits', value: row => row.bitsPerIndex, decimals: 3 },
  { heading: 'entropy bits', value: row => row.entropyBitsPerIndex, decimals: 3 },
  { heading: 'value bits', value: row => row.bitsPerValue, decimals: 3 },
  { heading: 'dense value bits', value: row => row.bitsPerDenseValue, decimals: 3 },
  { heading: 'index bytes', value: row => row.indexBytes, decimals: 0 },
  { heading: 'value bytes', value: row => row.sparseValueBytes, decimals: 0 },
  { heading: 'dense value bytes', value: row => row.denseValueBytes, decimals: 0 },
  { heading: 'other bytes', value: row => row.overheadBytes, decimals: 0 },
];

/** What measures each case, one after the other: they share one memory, and those of one model its gradients. */
function measurementsOf(
  cases: readonly NamedCase[],
  { distribution, steps, seed }: { distribution: Distribution; steps: number; seed: number },
): (() => CodecRow)[] {
  const heap = new SharedHeap();
  const kernels = instantiateKernels(heap.memory);
  let drawn: { name: ModelName; source: GradientSource; sourceLength: number } | undefined;
  return cases.map(measured => () => {
    const { name, model, format, density } = measured;
    if (drawn?.name !== name) {
      drawn = undefined; // before the next one takes as much again
      const sourceLength = Math.max(...model.map(elementCountOf));
      drawn = { name, source: new GradientSource(distribution, sourceLength, seed), sourceLength };
    }
    return {
      bench: 'codec',
      model: name,
      values: format,
      density,
      // Another seed, or the tensors' sizes would be the numbers that the gradients begin with.
      ...measureCodec(heap, kernels, measured, { ...drawn, steps, seed: (seed + 1) >>> 0 }),
      distribution,
      steps,
      seed,
    };
  });
}

/** Every combination of models, densities and formats, checked before the first is measured. */
function casesOf(text: Words): NamedCase[] {
  const typed = parseNames(text.model, 'model', [...MODEL_NAMES, 'all']);
  const names = typed.flatMap(name => (name === 'all' ? MODEL_NAMES : [name]));
  const densities = parseNumbers(text.density, {
    option: 'density',
    words: 'more than 0 and less than 1, or several such numbers, separated by commas',
    accepts: value => value >= Number.EPSILON && value < 1,
  });
  const formats = parseNames(text.values, 'values', VALUE_FORMATS);
  return names.flatMap(name =>
    densities.flatMap(density => formats.map(format => ({ name, model: MODELS[name], format, density }))),
  );
}
