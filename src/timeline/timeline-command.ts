import path from 'node:path';
import type { Argv, CommandModule } from 'yargs';
import { mergeTimelines } from './merge-timelines';
import { formatTotals } from './span-totals';

const mergeCommand: CommandModule = {
  command: 'merge <folder>',
  describe: 'Merge the timelines of all ranks into one trace, on the clock of rank 0',
  builder: (yargs: Argv) =>
    yargs
      .usage(
        '$0 timeline merge <folder> [options]\n\nMerges the timelines of all ranks into one trace, on the clock of rank 0, and ' +
          'prints where the time went.',
      )
      .positional('folder', {
        type: 'string',
        demandOption: true,
        describe: 'The folder with rank-0.json, rank-1.json, …',
      })
      .options({
        output: {
          type: 'string',
          requiresArg: true,
          describe: 'The file to write [default: timeline.json in the folder]',
        },
        json: { type: 'boolean', default: false, describe: 'Print the summary as one JSON object, in ms' },
      })
      .example('$0 timeline merge trace', 'write trace/timeline.json, and print where the time went')
      .epilogue(
        'Open the result at https://ui.perfetto.dev or chrome://tracing. Copy the timelines of other hosts into the folder ' +
          'first. The offsets between clocks are computed from the frames that went round the ring.',
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

/** The parser that the builder made, so that the handler can show its help. */
let shown: Argv;

/** `gradring timeline`: commands for recorded timelines. Without the name of a command it shows its help. */
export const timelineCommand: CommandModule = {
  command: 'timeline',
  describe: 'Work with the timelines that ranks have recorded',
  builder: (yargs: Argv) => {
    shown = yargs
      .usage('$0 timeline <command> [options]\n\nWorks with the timelines that ranks have recorded.')
      .command(mergeCommand)
      .example('$0 run -n 4 --timeline trace train.js', 'record trace/rank-0.json … trace/rank-3.json')
      .example('$0 timeline merge trace', 'merge them into trace/timeline.json')
      .epilogue('If another launcher starts the ranks, set GRADRING_TIMELINE to the folder.');
    return shown;
  },
  handler: () => {
    shown.showHelp('log');
  },
};
