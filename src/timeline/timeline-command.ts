import path from 'node:path';
import type { Argv, CommandModule } from 'yargs';
import { mergeTimelines } from './merge-timelines';
import { formatTotals } from './span-totals';

const mergeCommand: CommandModule = {
  command: 'merge <folder>',
  describe: "Merge the ranks' timelines into one trace, on rank 0's clock",
  builder: (yargs: Argv) =>
    yargs
      .usage('$0 timeline merge <folder> [options]')
      .positional('folder', { type: 'string', demandOption: true, describe: 'Where rank-0.json, rank-1.json, … are' })
      .options({
        output: {
          type: 'string',
          requiresArg: true,
          describe: 'The file to write [default: timeline.json in the folder]',
        },
        json: { type: 'boolean', default: false, describe: 'Print the summary as one JSON object, in ms' },
      })
      .example('$0 timeline merge trace', 'writes trace/timeline.json, and prints what the ranks spent their time with')
      .epilogue(
        'Open the result at https://ui.perfetto.dev or chrome://tracing. Timelines of other hosts must be copied into the ' +
          'folder first. Offsets between clocks are found from the frames that went round the ring.',
      ),
  handler: async parsed => {
    const folder = parsed['folder'] as string;
    const output = (parsed['output'] as string | undefined) ?? path.join(folder, 'timeline.json');
    const merged = await mergeTimelines(folder, output);
    for (const warning of merged.warnings) console.error(`gradring: ${warning}`);
    if (parsed['json']) console.log(JSON.stringify(merged));
    else
      console.log(
        [...formatTotals(merged.ranks), '', `${merged.output}: open it at https://ui.perfetto.dev`].join('\n'),
      );
  },
};

/** What the builder made, so that the handler can show it. */
let shown: Argv;

/** `gradring timeline`: what is done with recorded timelines. Without a command's name it shows its help. */
export const timelineCommand: CommandModule = {
  command: 'timeline',
  describe: 'Work with timelines that ranks have recorded',
  builder: (yargs: Argv) => {
    shown = yargs
      .usage('$0 timeline <command> [options]')
      .command(mergeCommand)
      .example('$0 run -n 4 --timeline trace train.js', 'records trace/rank-0.json … trace/rank-3.json')
      .example('$0 timeline merge trace', 'merges them into trace/timeline.json')
      .epilogue('Where `gradring run` does not start the ranks, GRADRING_TIMELINE=folder makes them record.');
    return shown;
  },
  handler: () => {
    shown.showHelp('log');
  },
};
