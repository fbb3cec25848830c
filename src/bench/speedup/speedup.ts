import { writeFileSync } from 'node:fs';
import type { Argv, CommandModule, Options } from 'yargs';
import { parseName, parseNumber, TEXT_OPTION, type Typed } from '../../command-line';
import { VALUE_FORMATS, type ValueFormat } from '../../compression/value-format';
import { invalidArgument } from '../../errors';
import { allOf } from '../../exchange/routes/route';
import { formatTable } from '../../table';
import { requireOneLauncher } from '../../launcher/launcher-task';
import { bitsPerSecond, requireNetlab } from '../collectives/netlab';
import { MODEL_NAMES, type ModelName, MODELS } from '../models/models';
import { elementCountOf } from '../models/tensor-shape';
import { parseDensity, requireWritable } from '../options';
import { Progress } from '../progress';
import { provenanceOf } from '../provenance';
import { calibrate } from './calibrate';
import { type Constants, impliedStepMs, type Scaling, SCALINGS } from './cluster-model';
import { readConstants } from './constants-file';
import { type Check, expectedMs, measureRing, type Rate, ringsToMeasure, type RingToMeasure } from './measure-rings';
import { parseNodes } from './nodes';
import { CHECK_COLUMNS, columnsOf, factsOf, NOTES, paperPoints, rowsOf, type SpeedUpResult, tableRows } from './result';
import { exitCodeOf, Rings } from './rings';
import { speedUpPage } from './speedup-page';
import { loadOf, lowRankNumbers, type Subject } from './subject';

const MEASURED_BY_DEFAULT = '2,4,8,16';
/** Rings have at most so many ranks: network labs do. */
const MOST_RANKS = 250;

const OPTIONS = {
  model: {
    ...TEXT_OPTION,
    default: 'alexnet' satisfies ModelName,
    describe: `The model whose gradients are exchanged: ${MODEL_NAMES.join(', ')}`,
  },
  nodes: {
    ...TEXT_OPTION,
    default: '1..64',
    describe: 'How many nodes, each with one rank: a range, several with commas',
  },
  rate: {
    ...TEXT_OPTION,
    default: '1gbit,10gbit',
    describe: "The rate of each node's link in each direction; several with commas",
  },
  'step-ms': {
    ...TEXT_OPTION,
    describe:
      "The time of one node's forward and backward pass, in ms [default for alexnet: what the paper's text implies]",
  },
  scaling: {
    ...TEXT_OPTION,
    default: 'weak' satisfies Scaling,
    describe: 'What more nodes do: weak, each as many examples as one alone; strong, together as many',
  },
  density: { ...TEXT_OPTION, default: '0.001', describe: 'The fraction of each large tensor that DGC sends' },
  values: {
    ...TEXT_OPTION,
    default: 'float16' satisfies ValueFormat,
    describe: `The format of the values: ${VALUE_FORMATS.join(', ')}`,
  },
  encryption: { ...TEXT_OPTION, default: 'off', describe: 'Encrypt TCP: on, off' },
  measure: {
    ...TEXT_OPTION,
    describe: `The sizes of rings that are run in a network lab (Linux, root), like --nodes; or none [default: ${MEASURED_BY_DEFAULT} where a lab is possible]`,
  },
  'measure-rate': {
    ...TEXT_OPTION,
    default: '50mbit',
    describe: 'The rate of links at which rings with more ranks than this host has processors are run',
  },
  constants: { ...TEXT_OPTION, describe: 'Take the constants from a file that --json wrote, and measure none' },
  json: { ...TEXT_OPTION, describe: 'Also write everything to this file, as one JSON object' },
  html: { ...TEXT_OPTION, describe: 'Also write a page with a chart to this file' },
} as const satisfies Record<string, Options>;

/** `gradring bench speedup`: how many times faster a cluster is than one node, measured and modelled. */
export const speedUpBenchmark: CommandModule = {
  command: 'speedup',
  describe: 'Tell how much faster clusters train than one node: dense, with DGC and with low rank',
  builder: (yargs: Argv) =>
    yargs
      .usage(
        '$0 bench speedup [options]\n\nTells how many times faster a cluster of N nodes trains than one node: dense, ' +
          'with DGC and with low rank. The exchange of dense and DGC is measured in rings of rank processes behind links of ' +
          'the given rate, as far as this host can run them, and modelled beyond with constants that are measured first. ' +
          'Both are marked, and predictions stand beside measurements. docs/reference/benchmarks.md has the model. This ' +
          'takes minutes.',
      )
      .options(OPTIONS)
      .example('$0 bench speedup', 'AlexNet on 1 to 64 nodes, as in figure 6 of the paper (7 minutes as root)')
      .example('$0 bench speedup --model resnet50 --step-ms 250 --nodes 8,16,32', 'another model; you know its step')
      .example(
        '$0 bench speedup --model digits-16x16 --step-ms 367 --scaling strong --rate 50mbit',
        'how much sooner a training ends, with the same batch on all nodes together',
      )
      .example('$0 bench speedup --measure none', 'no rings: only the constants are measured (no root)')
      .example('$0 bench speedup --json speedup.json --html speedup.html', 'for programs, and for a browser')
      .example(
        '$0 bench speedup --constants speedup.json --step-ms 80',
        'another step with the same constants, at once',
      )
      .epilogue('Ctrl-C while rings are measured shows what there is so far; the exit code is 130.'),
  handler: async parsed => {
    process.exitCode = await run(parsed as unknown as Words);
  },
};

type Words = Typed<typeof OPTIONS>;

/** The command line, checked. */
interface Settings extends Subject {
  readonly model: ModelName;
  readonly nodes: readonly number[];
  readonly rates: readonly Rate[];
  readonly stepMs: number;
  readonly stepMsFrom: string;
  readonly scaling: Scaling;
  readonly encryption: 'on' | 'off';
  /** The sizes of the rings that are measured. Empty for none. */
  readonly measured: readonly number[];
  readonly measureRate: Rate;
  /** From a file. */
  readonly constants: Constants | undefined;
}

async function run(words: Words): Promise<number> {
  const settings = settingsOf(words);
  const { rates, measured, measureRate } = settings;
  const { json, html } = words;
  if (json !== undefined) requireWritable(json, 'json');
  if (html !== undefined) requireWritable(html, 'html');
  const startedAt = new Date();
  const progress = new Progress();
  const rings = new Rings(settings.encryption, progress);
  const checks: Check[] = [];
  const measure = async (): Promise<number> => {
    progress.show('counting the bytes of a step');
    const load = loadOf(settings);
    const constants =
      settings.constants ??
      (await calibrate(settings, load, rings, measured.length > 0 ? measureRate : undefined, what =>
        progress.show(`measuring: ${what}`),
      ));
    const toMeasure = ringsToMeasure(measured, rates, measureRate, load, constants);
    const exitCode = await exitCodeOf(async () => {
      for (const [i, ring] of toMeasure.entries()) {
        progress.show(
          `${i + 1}/${toMeasure.length}: ${ring.way}, ${ring.nodes} ranks at ${ring.rate.text}, ${ring.part}; ${timeLeft(toMeasure.slice(i))}`,
        );
        checks.push(await measureRing(ring, settings, load, rings));
      }
    });
    progress.clear();
    const isListed = checks.length === 0 || rates.some(({ text }) => text === measureRate.text);
    const shown = isListed ? rates : [measureRate, ...rates].sort(slowestFirst);
    const { model, tensors, density, values, stepMs, stepMsFrom, scaling, encryption } = settings;
    const result: SpeedUpResult = {
      bench: 'speedup',
      ...provenanceOf(startedAt),
      ...{ model, density, values, ...allOf(load.dgc), whole: load.dgc.whole },
      ...{ rank: lowRankNumbers(tensors).rank, stepMs, stepMsFrom, scaling, encryption, constants },
      constantsFrom: words.constants ?? 'measured in this run',
      rows: rowsOf(settings.nodes, shown, settings, load, constants, checks),
      checks,
      paper: paperPoints(model, scaling),
    };
    if (json !== undefined) writeFileSync(json, `${JSON.stringify(result, undefined, 2)}\n`);
    if (html !== undefined) writeFileSync(html, speedUpPage(result));
    console.log(textOf(result).join('\n'));
    return exitCode;
  };
  return exitCodeOf(measure).finally(() => progress.clear());
}

function textOf(result: SpeedUpResult): string[] {
  const { checks } = result;
  return [
    ...factsOf(result).map(([name, words]) => `${name}: ${words}`),
    '',
    ...formatTable(columnsOf(result), tableRows(result.rows)),
    ...(checks.length > 0 ? ['', 'Predicted and measured:', ...formatTable(CHECK_COLUMNS, checks)] : []),
    '',
    ...NOTES,
  ];
}

/** What the model expects of the rings that are still to be measured, and what their start takes. */
function timeLeft(rings: readonly RingToMeasure[]): string {
  const seconds = rings.reduce((sum, ring) => sum + START_S + ring.nodes / 4 + expectedMs(ring) / 1e3, 0);
  return seconds < 60 ? `about ${Math.ceil(seconds)} s left` : `about ${Math.ceil(seconds / 60)} min left`;
}

const START_S = 3;

function settingsOf(words: Words): Settings {
  requireOneLauncher('bench speedup');
  const model = parseName(words.model, 'model', MODEL_NAMES);
  const rates = words.rate.split(',').map(text => rateOf(text, 'rate'));
  return {
    model,
    tensors: MODELS[model],
    density: parseDensity(words.density),
    values: parseName(words.values, 'values', VALUE_FORMATS),
    nodes: parseNodes(words.nodes, 'nodes'),
    rates: rates.sort(slowestFirst),
    ...stepOf(words['step-ms'], model),
    scaling: parseName(words.scaling, 'scaling', SCALINGS),
    encryption: parseName(words.encryption, 'encryption', ['on', 'off']),
    measured: measuredSizes(words.measure),
    measureRate: rateOf(words['measure-rate'], 'measure-rate'),
    constants: words.constants === undefined ? undefined : readConstants(words.constants),
  };
}

function rateOf(text: string, option: string): Rate {
  return { text, bitsPerSecond: bitsPerSecond(text, option) };
}

const slowestFirst = (a: Rate, b: Rate): number => a.bitsPerSecond - b.bitsPerSecond;

function stepOf(text: string | undefined, model: ModelName): Pick<Settings, 'stepMs' | 'stepMsFrom'> {
  if (text === undefined) {
    const implied = impliedStepMs(model, elementCountOf(MODELS[model]));
    if (implied !== undefined) return { stepMs: implied, stepMsFrom: "which the paper's dense point implies" };
    throw invalidArgument(
      `How long is a step of ${model} on one node? Give the time of its forward and backward pass, such as --step-ms 250.`,
    );
  }
  const stepMs = parseNumber(text, {
    option: 'step-ms',
    words: 'a time in ms, more than 0',
    accepts: value => value > 0 && Number.isFinite(value),
  });
  return { stepMs, stepMsFrom: 'as given' };
}

function measuredSizes(text: string | undefined): number[] {
  if (text === 'none') return [];
  if (text !== undefined) requireNetlab('--measure');
  else {
    try {
      requireNetlab();
    } catch {
      return [];
    }
  }
  const sizes = parseNodes(text ?? MEASURED_BY_DEFAULT, 'measure');
  if (sizes.every(size => size >= 2 && size <= MOST_RANKS)) return sizes;
  throw invalidArgument(`--measure is '${text}'; rings have 2 to ${MOST_RANKS} ranks.`);
}
