import type { Argv, CommandModule, Options } from 'yargs';
import { SharedHeap } from '../memory/shared-heap';
import { sentCount } from '../compression/sparsity-schedule';
import { VALUE_FORMATS, type ValueFormat } from '../compression/value-format';
import {
  JSON_OPTION,
  parseCount,
  parseCounts,
  parseName,
  parseNumber,
  parseNumbers,
  TEXT_OPTION,
  type Typed,
} from '../command-line';
import { type CompressCase, type CompressTimes, measureCompression, memoryBytes } from './compress-measurement';
import { type Distribution, DISTRIBUTIONS, GradientSource } from './gradient-source';
import { parseSeed, requireRoom } from './options';
import { writeResults } from './results';
import { instantiateMeasuredKernels } from './stream-floor';
import type { Column } from '../table';

/** One line of `gradring bench compress --json`. */
export interface CompressRow extends CompressTimes {
  readonly bench: 'compress';
  readonly elements: number;
  readonly density: number;
  /** How many elements a step sends. */
  readonly sent: number;
  readonly values: ValueFormat;
  readonly distribution: Distribution;
  readonly iterations: number;
  readonly seed: number;
  readonly clipNorm?: number;
}

const OPTIONS = {
  elements: {
    ...TEXT_OPTION,
    default: '25600000',
    describe: 'The elements of the tensor; several with commas',
  },
  density: {
    ...TEXT_OPTION,
    default: '0.25,0.0625,0.015625,0.004,0.001',
    describe: 'The fraction of them that is sent; several with commas',
  },
  values: {
    ...TEXT_OPTION,
    default: 'float16' satisfies ValueFormat,
    describe: `The format of the values: ${VALUE_FORMATS.join(', ')}`,
  },
  iterations: { ...TEXT_OPTION, default: '15', describe: 'How many steps are timed' },
  distribution: {
    ...TEXT_OPTION,
    default: 'normal' satisfies Distribution,
    describe: `The distribution of the gradient: ${DISTRIBUTIONS.join(', ')}`,
  },
  'clip-norm': {
    ...TEXT_OPTION,
    describe: 'Clip the gradient to this norm, and time that, too [default: no clipping]',
  },
  seed: { ...TEXT_OPTION, default: '1', describe: 'The seed of the gradient' },
  json: JSON_OPTION,
} as const satisfies Record<string, Options>;

/** `gradring bench compress`: how long DGC takes to compress one tensor, beside the time of memory alone. */
export const compressBenchmark: CommandModule = {
  command: 'compress',
  describe: 'Time the compression of one tensor, on one thread',
  builder: (yargs: Argv) =>
    yargs
      .usage(
        '$0 bench compress [options]\n\nTimes the compression of one tensor, on one thread. Beside it is the "floor": the ' +
          'time of a loop that only reads gradient, u and v and writes u and v, so the time of memory alone.',
      )
      .options(OPTIONS)
      .example('$0 bench compress', "the size of ResNet-50, at each density of the paper's warm-up")
      .example('$0 bench compress --elements 1000000,100000000 --density 0.001', 'a row for each size')
      .example('$0 bench compress --distribution sorted --json', 'values that are hard to select from, for programs'),
  handler: async parsed => {
    const text = parsed as unknown as Words;
    const cases = casesOf(text);
    const measurements = measurementsOf(cases, {
      distribution: parseName(text.distribution, 'distribution', DISTRIBUTIONS),
      seed: parseSeed(text.seed),
    });
    await writeResults(measurements, {
      json: text.json,
      columns: COLUMNS,
      describe: index => `${cases[index]!.elements} elements, density ${cases[index]!.density}`,
    });
  },
};

type Words = Typed<typeof OPTIONS>;

const COLUMNS: readonly Column<CompressRow>[] = [
  { heading: 'elements', value: row => row.elements, decimals: 0 },
  { heading: 'density', value: row => row.density, decimals: 'all' },
  { heading: 'sent', value: row => row.sent, decimals: 0 },
  { heading: 'floor p50 ms', value: row => row.floorMs, decimals: 3 },
  { heading: 'step min ms', value: row => row.timeMs.min, decimals: 3 },
  { heading: 'p50 ms', value: row => row.timeMs.p50, decimals: 3 },
  { heading: 'p99 ms', value: row => row.timeMs.p99, decimals: 3 },
  { heading: '× floor', value: row => row.timesFloor, decimals: 2 },
  { heading: 'norm ms', value: row => row.phaseMs.normMs, decimals: 3 },
  { heading: 'compress ms', value: row => row.phaseMs.compressMs, decimals: 3 },
  { heading: 'encode ms', value: row => row.phaseMs.encodeMs, decimals: 3 },
  { heading: 'settle ms', value: row => row.phaseMs.settleMs, decimals: 3 },
];

/** A measurement for each case. They share one memory, and those of equal size share their gradients. */
function measurementsOf(
  cases: readonly CompressCase[],
  { distribution, seed }: { distribution: Distribution; seed: number },
): (() => CompressRow)[] {
  const heap = new SharedHeap();
  const kernels = instantiateMeasuredKernels(heap.memory);
  let source: { elements: number; gradients: GradientSource } | undefined;
  return cases.map(measured => () => {
    const { elements, density, format, iterations, clipNorm } = measured;
    if (source?.elements !== elements) {
      source = undefined; // so that only one source is in memory at a time
      source = { elements, gradients: new GradientSource(distribution, elements, seed) };
    }
    return {
      bench: 'compress',
      elements,
      density,
      sent: sentCount(elements, density),
      ...measureCompression(heap, kernels, source.gradients, measured),
      values: format,
      distribution,
      iterations,
      seed,
      ...(clipNorm !== undefined && { clipNorm }),
    };
  });
}

/** Every combination of sizes and densities, checked before the first one is measured. */
function casesOf(text: Words): CompressCase[] {
  const sizes = parseCounts(text.elements, 'elements');
  const densities = parseNumbers(text.density, {
    option: 'density',
    words: 'more than 0 and at most 1, or several such numbers, separated by commas',
    accepts: value => value > 0 && value <= 1,
  });
  const iterations = parseCount(text.iterations, 'iterations');
  const clipNorm =
    text['clip-norm'] === undefined
      ? undefined
      : parseNumber(text['clip-norm'], {
          option: 'clip-norm',
          words: 'a positive, finite norm; leave it out for no clipping',
          accepts: value => value > 0 && Number.isFinite(value),
        });
  const format = parseName(text.values, 'values', VALUE_FORMATS);
  const cases = sizes.flatMap(elements =>
    densities.map(density => ({ elements, density, format, iterations, clipNorm })),
  );
  for (const measured of cases) requireRoom(measured, memoryBytes(measured), 20);
  return cases;
}
