import type { Argv, CommandModule } from 'yargs';
import { schedulerAround } from '../../environment/find-place';
import { MAX_WORLD_SIZE } from '../../environment/variables';
import { readRankEnvironment } from '../../environment/rank-environment';
import { invalidArgument } from '../../errors';
import { parseCount } from '../../command-line';
import { requireWritable } from '../options';
import type { CollectiveBenchmark } from './collective-benchmark';
import { busbwWords } from './facts';
import { joinRing } from './join-ring';
import { bitsPerSecond, requireNetlab } from './netlab';
import { optionsOf, type Words } from './options';
import { planOf } from './plan';
import { Report } from './report';
import { startRanks } from './start-ranks';

/** `gradring bench <collective>`: starts ranks, or is a rank itself if the environment says so. */
export function collectiveCommand(benchmark: CollectiveBenchmark): CommandModule {
  const { name, describe, sizeMeans } = benchmark;
  return {
    command: name,
    describe,
    builder: (yargs: Argv) => {
      const sizes =
        sizeMeans === undefined
          ? ''
          : ` The size is that ${sizeMeans}. ${busbwWords(name)} docs/reference/benchmarks.md defines algbw and busbw.`;
      yargs
        .usage(
          `$0 bench ${name} -n <ranks> [options]\n\n${describe}. Each iteration is timed alone, after the ranks have waited for each other, on ` +
            `rank 0.${sizes}`,
        )
        .options(optionsOf(benchmark))
        .example(`$0 bench ${name} -n 4`, 'four ranks on this host');
      for (const [args, words] of examplesOf(benchmark)) yargs.example(`$0 bench ${name} ${args}`, words);
      return yargs
        .example(`$0 run -n 4 $(which gradring) bench ${name}`, 'as the ranks of a run: for several hosts')
        .epilogue(
          'The exit code is 1 if a result was wrong. Ctrl-C ends the benchmark and shows the rows so far; the exit code is 130.',
        );
    },
    handler: async parsed => {
      process.exitCode = await run(benchmark, parsed as unknown as Words);
    },
  };
}

function examplesOf({ options }: CollectiveBenchmark): [args: string, words: string][] {
  const sparse = options.includes('sparse');
  return [
    ...(options.includes('sizes') && !sparse
      ? [['-n 2 --min-bytes 64K --max-bytes 100MB --step-factor 2', 'other sizes'] as [string, string]]
      : []),
    ...(sparse
      ? [['-n 4 --density 0.001,0.01 --way sparse,dense', 'both ways beside each other'] as [string, string]]
      : []),
    ['-n 4 --json > rows.jsonl', 'one JSON object a line, for programs'],
    ['-n 4 --html rows.html', 'with a page for a browser'],
    ['-n 4 --netlab 1gbit', 'each rank behind a link of 1 Gbit/s (root)'],
  ];
}

async function run(benchmark: CollectiveBenchmark, words: Words): Promise<number> {
  const { ranks, joins } = placeOf(words);
  const plan = planOf(benchmark, words, ranks);
  const lineRate = words.netlab === undefined ? undefined : bitsPerSecond(words.netlab);
  const silent = joins && readRankEnvironment().rank !== 0;
  if (words.html !== undefined && !silent) requireWritable(words.html, 'html');
  if (words.netlab !== undefined) {
    if (joins)
      throw invalidArgument(
        '--netlab starts ranks, but this process is a rank that was started already (RANK and WORLD_SIZE, or a scheduler).',
      );
    requireNetlab();
  }
  const command = `gradring ${process.argv.slice(2).join(' ')}`;
  const report = new Report(plan, { json: words.json, html: words.html, lineRate, command });
  try {
    if (joins) return await joinRing(benchmark, plan, report);
    const exitCode = await startRanks(plan, { ranks, netlabRate: words.netlab, stderr: report.stderr }, report);
    return exitCode === 0 && report.wrong ? 1 : exitCode;
  } finally {
    if (!silent) await report.finish();
  }
}

/** How many ranks there are, and whether this process is one of them. */
function placeOf(words: Words): { ranks: number; joins: boolean } {
  const asked = words.ranks === undefined ? undefined : parseCount(words.ranks, 'ranks', MAX_WORLD_SIZE);
  const started = schedulerAround(process.env)?.place.worldSize ?? 1;
  const isRank = process.env['RANK'] || process.env['WORLD_SIZE'] || started > 1;
  if (!isRank) {
    if (asked === undefined) throw invalidArgument('How many ranks? Give -n, such as -n 4.');
    return { ranks: asked, joins: false };
  }
  const { worldSize } = readRankEnvironment();
  if (asked !== undefined && asked !== worldSize) {
    throw invalidArgument(
      `--ranks is ${asked}, but this process is one of ${worldSize} ranks that were started already. Leave out --ranks, or unset RANK and WORLD_SIZE.`,
    );
  }
  return { ranks: worldSize, joins: true };
}
