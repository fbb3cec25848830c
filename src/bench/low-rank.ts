import type { Argv, CommandModule, Options } from 'yargs';
import { SharedHeap } from '../memory/shared-heap';
import { JSON_OPTION, parseCount, parseCounts, TEXT_OPTION, type Typed } from '../command-line';
import { invalidArgument } from '../errors';
import { type LowRankCase, type LowRankTimes, measureLowRank } from './low-rank-measurement';
import { parseDensities, parseSeed } from './options';
import { writeResults } from './results';
import { instantiateMeasuredKernels } from './stream-floor';
import type { Column } from '../table';

/** One line of `gradring bench low-rank --json`. */
export interface LowRankRow extends LowRankTimes, Omit<LowRankCase, 'seed'> {
  readonly bench: 'low-rank';
}

/** DGC needs 20 bytes of a WebAssembly memory for an element. */
const MOST_ELEMENTS = 150e6;

const OPTIONS = {
  shapes: {
    ...TEXT_OPTION,
    default: '1024x1024',
    describe: 'Rows and columns of the matrix, such as 512x256; several with commas',
  },
  rank: { ...TEXT_OPTION, default: '8', describe: 'The columns of its factors; several with commas' },
  ranks: { ...TEXT_OPTION, default: '4', describe: 'How many ranks send a message; several with commas' },
  density: { ...TEXT_OPTION, default: '0.01', describe: 'What DGC sends, to compare with' },
  iterations: { ...TEXT_OPTION, default: '15', describe: 'How many steps are timed' },
  seed: { ...TEXT_OPTION, default: '1', describe: 'The seed of the gradient' },
  json: JSON_OPTION,
} as const satisfies Record<string, Options>;

/** `gradring bench low-rank`: how long a rank computes in a step with low rank, beside DGC. */
export const lowRankBenchmark: CommandModule = {
  command: 'low-rank',
  describe: 'Time lowRank() beside dgc(), on one thread',
  builder: (yargs: Argv) =>
    yargs
      .usage(
        '$0 bench low-rank [options]\n\nTimes what a rank computes in a step for one matrix, on one thread: it encodes its gradient, and decodes and ' +
          'adds those of all ranks. Beside it is the same of DGC, and the "floor": the time of a loop that only reads ' +
          'gradient, u and v and writes u and v.',
      )
      .options(OPTIONS)
      .example('$0 bench low-rank', 'a million elements, on four ranks')
      .example('$0 bench low-rank --shapes 512x256,4096x1024 --rank 4,12', 'a row for each combination')
      .example('$0 bench low-rank --ranks 2,16 --json', 'for programs'),
  handler: async parsed => {
    const text = parsed as unknown as Words;
    const cases = casesOf(text);
    const heap = new SharedHeap();
    const kernels = instantiateMeasuredKernels(heap.memory);
    const measurements = cases.map(({ seed, ...measured }) => async (): Promise<LowRankRow> => {
      const times = await measureLowRank(heap, kernels, { ...measured, seed });
      return { bench: 'low-rank', ...measured, ...times };
    });
    await writeResults(measurements, {
      json: text.json,
      columns: COLUMNS,
      describe: index => {
        const { rows, columns, rank, ranks } = cases[index]!;
        return `${rows} × ${columns}, ${rank} columns, ${ranks} ranks`;
      },
    });
  },
};

type Words = Typed<typeof OPTIONS>;

const COLUMNS: readonly Column<LowRankRow>[] = [
  { heading: 'matrix', value: ({ rows, columns }) => `${rows}×${columns}` },
  { heading: 'rank', value: row => row.rank, decimals: 0 },
  { heading: 'ranks', value: row => row.ranks, decimals: 0 },
  { heading: 'message bytes', value: row => row.messageBytes, decimals: 0 },
  { heading: 'floor p50 ms', value: row => row.floorMs, decimals: 3 },
  { heading: 'step min ms', value: row => row.timeMs.min, decimals: 3 },
  { heading: 'p50 ms', value: row => row.timeMs.p50, decimals: 3 },
  { heading: 'p99 ms', value: row => row.timeMs.p99, decimals: 3 },
  { heading: 'ns/element', value: row => row.nsPerElement, decimals: 2 },
  { heading: 'DGC p50 ms', value: row => row.dgcMs, decimals: 3 },
  { heading: '× DGC', value: row => row.timesDgc, decimals: 2 },
];

/** Every combination, checked before the first one is measured. */
function casesOf(text: Words): LowRankCase[] {
  const shapes = text.shapes.split(',').map(shapeOf);
  const densities = parseDensities(text.density);
  const counts = parseCounts(text.rank, 'rank');
  const rankCounts = parseCounts(text.ranks, 'ranks');
  const iterations = parseCount(text.iterations, 'iterations');
  const seed = parseSeed(text.seed);
  return shapes.flatMap(shape =>
    counts.flatMap(rank =>
      rankCounts.flatMap(ranks => densities.map(density => ({ ...shape, rank, ranks, density, iterations, seed }))),
    ),
  );
}

function shapeOf(text: string): Pick<LowRankCase, 'rows' | 'columns'> {
  const [, rows, columns] = /^([1-9]\d*)[x×]([1-9]\d*)$/.exec(text.trim()) ?? [];
  const shape = { rows: Number(rows), columns: Number(columns) };
  if (shape.rows * shape.columns <= MOST_ELEMENTS) return shape;
  throw invalidArgument(
    `--shapes is '${text}'; it must be rows and columns, such as 512x256, of at most ${MOST_ELEMENTS / 1e6} million elements, or several, separated by commas`,
  );
}
