import type { Argv, CommandModule, Options } from 'yargs';
import { SharedHeap } from '../memory/shared-heap';
import { VALUE_FORMATS, type ValueFormat } from '../compression/value-format';
import { instantiateKernels } from '../kernels/wasm-kernels';
import { JSON_OPTION, parseCount, parseName, parseNames, TEXT_OPTION, type Typed } from '../command-line';
import { type CodecCase, type CodecSizes, measureCodec } from './codec-measurement';
import { type Distribution, GradientSource } from './gradient-source';
import { MODEL_NAMES, type ModelName, MODELS } from './models/models';
import { elementCountOf } from './models/tensor-shape';
import { parseDensities, parseSeed } from './options';
import { writeResults } from './results';
import type { Column } from '../table';

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

/** Those in which each element has its own magnitude; the others are for corner cases of the selection. */
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
    describe: `The distribution of the gradients: ${GRADIENT_DISTRIBUTIONS.join(', ')}`,
  },
  steps: {
    ...TEXT_OPTION,
    default: '3',
    describe: 'How many steps are trained; the bytes of the last one are counted',
  },
  seed: { ...TEXT_OPTION, default: '1', describe: 'The seed of the gradients' },
  json: JSON_OPTION,
} as const satisfies Record<string, Options>;

/** `gradring bench codec`: how many bytes a step of a model takes on the wire. */
export const codecBenchmark: CommandModule = {
  command: 'codec',
  describe: 'Count the bytes of a step of well-known models',
  builder: (yargs: Argv) =>
    yargs
      .usage(
        '$0 bench codec [options]\n\nCounts the bytes that a rank sends in a sparse step of a well-known model, with all ' +
          "headers and framing. The tensors have the model's shapes; the gradients are random. Beside the bits of an " +
          'index is their entropy: no code can take fewer. Each result is decoded again and compared with what was sent.',
      )
      .options(OPTIONS)
      .example('$0 bench codec', 'five models with two formats')
      .example('$0 bench codec --model resnet50 --values float32,log4', 'other formats')
      .example('$0 bench codec --model all --density 0.25,0.001 --json', 'for programs'),
  handler: async parsed => {
    const text = parsed as unknown as Words;
    const cases = casesOf(text);
    const measurements = measurementsOf(cases, {
      distribution: parseName(text.distribution, 'distribution', GRADIENT_DISTRIBUTIONS),
      steps: parseCount(text.steps, 'steps'),
      seed: parseSeed(text.seed),
    });
    await writeResults(measurements, {
      json: text.json,
      columns: COLUMNS,
      describe: index => {
        const { name, format, density } = cases[index]!;
        return `${name}, ${format}, density ${density}`;
      },
    });
  },
};

type Words = Typed<typeof OPTIONS>;

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

/** A measurement for each case. They share one memory, and those of one model share its gradients. */
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
      drawn = undefined; // so that only one source is in memory at a time
      const sourceLength = Math.max(...model.map(elementCountOf));
      drawn = { name, source: new GradientSource(distribution, sourceLength, seed), sourceLength };
    }
    return {
      bench: 'codec',
      model: name,
      values: format,
      density,
      // With the same seed, the scales of the tensors would be the first numbers of the gradients.
      ...measureCodec(heap, kernels, measured, { ...drawn, steps, seed: (seed + 1) >>> 0 }),
      distribution,
      steps,
      seed,
    };
  });
}

/** Every combination of models, densities and formats, checked before the first one is measured. */
function casesOf(text: Words): NamedCase[] {
  const typed = parseNames(text.model, 'model', [...MODEL_NAMES, 'all']);
  const names = typed.flatMap(name => (name === 'all' ? MODEL_NAMES : [name]));
  const densities = parseDensities(text.density);
  const formats = parseNames(text.values, 'values', VALUE_FORMATS);
  return names.flatMap(name =>
    densities.flatMap(density => formats.map(format => ({ name, model: MODELS[name], format, density }))),
  );
}
