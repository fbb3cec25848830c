import type { Argv, CommandModule } from 'yargs';
import { codecBenchmark } from './codec';
import { collectiveCommand } from './collectives/collective-command';
import { COLLECTIVES } from './collectives/collectives';
import { BUSBW } from './collectives/facts';
import { compressBenchmark } from './compress';
import { decodeBenchmark } from './decode';
import { formBenchmark } from './form/form';
import { lowRankBenchmark } from './low-rank';
import { optimizerBenchmark } from './optimizer/optimizer';
import { scaleBenchmark } from './scale/scale';
import { speedUpBenchmark } from './speedup/speedup';

/** Each benchmark has a file. To add one, list it here; benchmarks of collectives are listed in collectives/. */
const BENCHMARKS: CommandModule[] = [
  compressBenchmark,
  codecBenchmark,
  decodeBenchmark,
  lowRankBenchmark,
  optimizerBenchmark,
  speedUpBenchmark,
  scaleBenchmark,
  formBenchmark,
  ...COLLECTIVES.map(collectiveCommand),
];

/** The parser that the builder made, so that the handler can show its help. */
let shown: Argv;

/** `gradring bench`: measures parts of gradring on this machine. Without the name of a benchmark it shows its help. */
export const benchCommand: CommandModule = {
  command: 'bench',
  describe: 'Measure parts of gradring on this machine',
  builder: (yargs: Argv) => {
    shown = yargs
      .usage(
        '$0 bench <benchmark> [options]\n\nMeasures parts of gradring on this machine. Ratios say more than times.',
      )
      .command(BENCHMARKS)
      .example('$0 bench compress --elements 1000000', 'compress a tensor of a million elements')
      .example('$0 bench all-reduce -n 4', 'the all-reduce of four ranks, over several sizes')
      .example('$0 bench compress --json > compress.jsonl', 'one JSON object a line, for programs')
      .epilogue(`$0 bench <benchmark> --help lists the options of each.\n\n${BUSBW}`);
    return shown;
  },
  handler: () => {
    shown.showHelp('log');
  },
};
