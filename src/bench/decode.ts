import type { Argv, CommandModule, Options } from 'yargs';
import { SharedHeap } from '../memory/shared-heap';
import { VALUE_FORMATS, type ValueFormat } from '../compression/value-format';
import { JSON_OPTION, parseCount, parseCounts, parseNames, TEXT_OPTION, type Typed } from '../command-line';
import { type DecodeCase, type DecodeTimes, measureDecoding, memoryBytes } from './decode-measurement';
import { parseDensities, requireRoom } from './options';
import { writeResults } from './results';
import { instantiateMeasuredKernels } from './stream-floor';
import type { Column } from '../table';

/** One line of `gradring bench decode --json`. */
export interface DecodeRow extends DecodeTimes {
  readonly bench: 'decode';
  readonly elements: number;
  readonly density: number;
  readonly ranks: number;
  readonly values: ValueFormat;
  readonly iterations: number;
}

const OPTIONS = {
  elements: {
    ...TEXT_OPTION,
    default: '25600000',
    describe: 'The elements of the tensor; several with commas',
  },
  density: {
    ...TEXT_OPTION,
    default: '0.001',
    describe: 'The fraction of them that each rank sends; several with commas',
  },
  ranks: {
    ...TEXT_OPTION,
    default: '64',
    describe: 'How many ranks send a payload; several with commas',
  },
  values: {
    ...TEXT_OPTION,
    default: 'float16' satisfies ValueFormat,
    describe: `The format of the values; several with commas: ${VALUE_FORMATS.join(', ')}`,
  },
  iterations: { ...TEXT_OPTION, default: '9', describe: 'How many sums are timed' },
  json: JSON_OPTION,
} as const satisfies Record<string, Options>;

/** `gradring bench decode`: how long it takes to sum the payloads of many ranks, beside the time of memory alone. */
export const decodeBenchmark: CommandModule = {
  command: 'decode',
  describe: 'Time how one thread decodes and sums what many ranks sent',
  builder: (yargs: Argv) =>
    yargs
      .usage(
        '$0 bench decode [options]\n\nTimes how long one thread takes to decode the payloads of many ranks and to sum them. ' +
          'Beside it is the "floor": the time of a loop that only reads gradient, u and v and writes u and v, so the time ' +
          'of memory alone when a tensor of that size is compressed.',
      )
      .options(OPTIONS)
      .example('$0 bench decode', 'the size of ResNet-50, 64 ranks')
      .example('$0 bench decode --ranks 2,8,64 --values float16,int8', 'a row for each combination')
      .example('$0 bench decode --elements 1000000 --json', 'for programs'),
  handler: async parsed => {
    const text = parsed as unknown as Words;
    const cases = casesOf(text);
    const heap = new SharedHeap();
    const kernels = instantiateMeasuredKernels(heap.memory);
    const measurements = cases.map(measured => (): DecodeRow => {
      const { elements, density, ranks, format, iterations } = measured;
      const times = measureDecoding(heap, kernels, measured);
      return { bench: 'decode', elements, density, ranks, values: format, ...times, iterations };
    });
    await writeResults(measurements, {
      json: text.json,
      columns: COLUMNS,
      describe: index => {
        const { elements, density, ranks, format } = cases[index]!;
        return `${elements} elements, density ${density}, ${ranks} ranks, ${format}`;
      },
    });
  },
};

type Words = Typed<typeof OPTIONS>;

const COLUMNS: readonly Column<DecodeRow>[] = [
  { heading: 'elements', value: row => row.elements, decimals: 0 },
  { heading: 'density', value: row => row.density, decimals: 'all' },
  { heading: 'ranks', value: row => row.ranks, decimals: 0 },
  { heading: 'values', value: row => row.values },
  { heading: 'payload bytes', value: row => row.payloadBytes, decimals: 0 },
  { heading: 'floor p50 ms', value: row => row.floorMs, decimals: 3 },
  { heading: 'sum min ms', value: row => row.timeMs.min, decimals: 3 },
  { heading: 'p50 ms', value: row => row.timeMs.p50, decimals: 3 },
  { heading: 'p99 ms', value: row => row.timeMs.p99, decimals: 3 },
  { heading: '× floor', value: row => row.timesFloor, decimals: 2 },
];

/** The same entries in each run. */
const SEED = 1;

/** Every combination, checked before the first one is measured. */
function casesOf(text: Words): DecodeCase[] {
  const sizes = parseCounts(text.elements, 'elements');
  const densities = parseDensities(text.density);
  const rankCounts = parseCounts(text.ranks, 'ranks');
  const formats = parseNames(text.values, 'values', VALUE_FORMATS);
  const iterations = parseCount(text.iterations, 'iterations');
  const cases = sizes.flatMap(elements =>
    densities.flatMap(density =>
      rankCounts.flatMap(ranks =>
        formats.map(format => ({ elements, density, ranks, format, iterations, seed: SEED })),
      ),
    ),
  );
  for (const measured of cases) requireRoom(measured, memoryBytes(measured), 16);
  return cases;
}
