import { writeFileSync } from 'node:fs';
import { freemem } from 'node:os';
import type { Argv, CommandModule, Options } from 'yargs';
import { parseCount, parseName, TEXT_OPTION, type Typed } from '../../command-line';
import { A_DELAY, msOf } from '../../environment/link-delay';
import { invalidArgument } from '../../errors';
import { allOf } from '../../exchange/routes/route';
import { requireOneLauncher } from '../../launcher/launcher-task';
import { formatTable } from '../../table';
import { bitsPerSecond } from '../collectives/netlab';
import { MODEL_NAMES, type ModelName, MODELS } from '../models/models';
import { parseDensity, requireWritable } from '../options';
import { Progress } from '../progress';
import { provenanceOf } from '../provenance';
import { calibrate } from '../speedup/calibrate';
import type { Constants } from '../speedup/cluster-model';
import { readConstants } from '../speedup/constants-file';
import { doublings, parseNodes } from '../speedup/nodes';
import { exitCodeOf, Rings } from '../speedup/rings';
import { loadOf, type Subject } from '../speedup/subject';
import { CHECK_COLUMNS, checkWords, COLUMNS, factsOf, type ScaleResult } from './result';
import {
  measureRing,
  type RingToMeasure,
  ringsToMeasure,
  type RouteCheck,
  rowsOf,
  type ScaleLinks,
  secondsOf,
} from './routes';

/** The largest ring that is measured unasked. */
const MOST_MEASURED = 64;
/** What the process of a rank takes. */
const RANK_BYTES = 100e6;

const OPTIONS = {
  ranks: {
    ...TEXT_OPTION,
    default: '4..4096',
    describe: 'How many ranks: a range, of which each is twice the one before; several with commas',
  },
  model: {
    ...TEXT_OPTION,
    default: 'resnet50' satisfies ModelName,
    describe: `The model whose gradients are exchanged: ${MODEL_NAMES.join(', ')}`,
  },
  elements: { ...TEXT_OPTION, describe: 'A gradient of one matrix with so many elements, instead of a model' },
  density: { ...TEXT_OPTION, default: '0.001', describe: 'The fraction of each large tensor that a rank sends' },
  'link-rate': { ...TEXT_OPTION, default: '1gbit', describe: "The rate of each rank's link in each direction" },
  'link-delay': {
    ...TEXT_OPTION,
    describe: 'How much later everything arrives, such as 5ms [default: no later than on this host]',
  },
  measure: {
    ...TEXT_OPTION,
    describe: `The sizes of rings that are run here, like --ranks; or none [default: those of --ranks up to ${MOST_MEASURED}, if the memory suffices]`,
  },
  'measure-rate': { ...TEXT_OPTION, default: '5mbit', describe: 'The rate of the links of these rings' },
  constants: { ...TEXT_OPTION, describe: 'Take the constants from a file that --json wrote, and measure none' },
  json: { ...TEXT_OPTION, describe: 'Also write everything to this file, as one JSON object' },
} as const satisfies Record<string, Options>;

/** `gradring bench scale`: what a step costs on each route in large rings, and how far the model is right. */
export const scaleBenchmark: CommandModule = {
  command: 'scale',
  describe: 'Tell what a step costs on each route in rings of up to thousands of ranks',
  builder: (yargs: Argv) =>
    yargs
      .usage(
        '$0 bench scale [options]\n\nTells what the exchange of a step takes, and how many bytes a rank sends, on each route in rings ' +
          'of any size, by the model of docs/reference/benchmarks.md with constants that are measured first. Then rings ' +
          'of rank processes on this host show how far the model is right: they exchange a small step over slow links, ' +
          'so that the network takes the time, and not the shared processors. This takes minutes.',
      )
      .options(OPTIONS)
      .example('$0 bench scale --ranks 4..4096', 'ResNet-50 on links of 1 Gbit/s; rings of 4 to 64 ranks are measured')
      .example('$0 bench scale --elements 1000000 --density 0.01 --link-rate 100mbit --link-delay 5ms', 'distant hosts')
      .example('$0 bench scale --ranks 4,8,16 --measure 4,8', 'other sizes')
      .example('$0 bench scale --json scale.json', 'for programs')
      .example('$0 bench scale --constants scale.json --measure none --link-rate 10gbit', 'other links, at once')
      .epilogue('Ctrl-C while rings are measured shows what there is so far; the exit code is 130.'),
  handler: async parsed => {
    process.exitCode = await run(parsed as unknown as Words);
  },
};

type Words = Typed<typeof OPTIONS>;

/** The command line, checked. */
interface Settings extends Subject {
  readonly gradient: string;
  readonly ranks: readonly number[];
  readonly links: ScaleLinks;
  /** The sizes of the rings that are measured. Empty for none. */
  readonly measured: readonly number[];
  readonly measuredLinks: ScaleLinks;
  /** From a file. */
  readonly constants: Constants | undefined;
}

async function run(words: Words): Promise<number> {
  const settings = settingsOf(words);
  const { json } = words;
  if (json !== undefined) requireWritable(json, 'json');
  const startedAt = new Date();
  const progress = new Progress();
  const rings = new Rings('off', progress);
  const checks: RouteCheck[] = [];
  const measure = async (): Promise<number> => {
    progress.show('counting the bytes of a step');
    const load = loadOf(settings);
    const constants =
      settings.constants ??
      (await calibrate(settings, load, rings, undefined, what => progress.show(`measuring: ${what}`)));
    const toMeasure = ringsToMeasure(settings.measured, settings.measuredLinks, constants);
    const exitCode = await exitCodeOf(async () => {
      for (const [i, ring] of toMeasure.entries()) {
        progress.show(`${i + 1}/${toMeasure.length}: a ring of ${ring.ranks} ranks; ${timeLeft(toMeasure.slice(i))}`);
        checks.push(...(await measureRing(ring, rings)));
      }
    });
    progress.clear();
    const { gradient, density, values, ranks, links, measuredLinks } = settings;
    const result: ScaleResult = {
      bench: 'scale',
      ...provenanceOf(startedAt),
      ...{ gradient, density, values, ...allOf(load.dgc), whole: load.dgc.whole },
      ...{ linkRate: links.linkRate, linkDelay: links.linkDelay },
      ...{ constants, constantsFrom: words.constants ?? 'measured in this run' },
      rows: rowsOf(ranks, load, links, constants),
      ...{ measureRate: measuredLinks.linkRate, checks },
    };
    if (json !== undefined) writeFileSync(json, `${JSON.stringify(result, undefined, 2)}\n`);
    console.log(textOf(result).join('\n'));
    return exitCode;
  };
  return exitCodeOf(measure).finally(() => progress.clear());
}

function textOf(result: ScaleResult): string[] {
  const { rows, checks } = result;
  return [
    ...factsOf(result).map(([name, words]) => `${name}: ${words}`),
    '',
    'Expected of a step:',
    ...formatTable(COLUMNS, rows),
    ...(checks.length > 0 ? ['', checkWords(result), ...formatTable(CHECK_COLUMNS, checks)] : []),
  ];
}

function timeLeft(rings: readonly RingToMeasure[]): string {
  const seconds = rings.reduce((sum, ring) => sum + secondsOf(ring), 0);
  return seconds < 60 ? `about ${Math.ceil(seconds)} s left` : `about ${Math.ceil(seconds / 60)} min left`;
}

function settingsOf(words: Words): Settings {
  requireOneLauncher('bench scale');
  const ranks = ringSizes(words.ranks, 'ranks');
  const { 'link-delay': linkDelay, measure } = words;
  const delayMs = delayOf(linkDelay);
  const linksOf = (option: 'link-rate' | 'measure-rate'): ScaleLinks => {
    const linkRate = words[option];
    return { linkRate, bitsPerSecond: bitsPerSecond(linkRate, option), linkDelay, delayMs };
  };
  return {
    ...gradientOf(words),
    density: parseDensity(words.density),
    values: 'float16',
    ranks,
    links: linksOf('link-rate'),
    measured:
      measure === 'none'
        ? []
        : measure !== undefined
          ? ringSizes(measure, 'measure')
          : ranks.filter(of => of <= MOST_MEASURED && of * RANK_BYTES < freemem()),
    measuredLinks: linksOf('measure-rate'),
    constants: words.constants === undefined ? undefined : readConstants(words.constants),
  };
}

function ringSizes(text: string, option: string): number[] {
  const sizes = parseNodes(text, option, doublings);
  if (sizes[0]! >= 2) return sizes;
  throw invalidArgument(`--${option} is '${text}'; a ring has 2 ranks or more.`);
}

function delayOf(text: string | undefined): number {
  const ms = text === undefined ? 0 : msOf(text);
  if (ms !== undefined) return ms;
  throw invalidArgument(`--link-delay is '${text}'; it must be ${A_DELAY}.`);
}

function gradientOf({ model, elements }: Words): Pick<Settings, 'gradient' | 'tensors'> {
  if (elements === undefined) {
    const gradient = parseName(model, 'model', MODEL_NAMES);
    return { gradient, tensors: MODELS[gradient] };
  }
  const count = parseCount(elements, 'elements');
  return { gradient: 'one matrix', tensors: [{ name: 'gradient', shape: [1, count] }] };
}
