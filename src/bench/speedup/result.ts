import type { EntryLoad } from '../../exchange/routes/route';
import type { Column } from '../../table';
import { rounded } from '../statistics';
import {
  type ClusterLoad,
  type ClusterWay,
  type Constants,
  type ExchangeTimes,
  exchangeTimes,
  ownStepMs,
  PAPER,
  type PaperPoint,
  type Scaling,
  speedUp,
  WAYS,
} from './cluster-model';
import type { ModelName } from '../models/models';
import { type Provenance, provenanceFacts } from '../provenance';
import type { Check, Rate } from './measure-rings';
import type { Subject } from './subject';

/** A cluster, and how much faster it is than one node. */
export interface SpeedUpRow {
  readonly nodes: number;
  readonly way: ClusterWay;
  readonly rate: string;
  /**
   * `measured`: the whole exchange, in a ring of the network lab. `in parts`: what a rank computes was measured on one
   * rank alone, and the travel in a ring of that size. `modelled`: by the model and its constants.
   */
  readonly source: 'measured' | 'in parts' | 'modelled';
  /** How the gradients travel. */
  readonly travelled: ExchangeTimes['travelled'];
  readonly computeMs?: number;
  readonly travelMs?: number;
  /** The time of the exchange. */
  readonly exchangeMs: number;
  readonly speedUp: number;
  /** By one rank in a step. */
  readonly sentBytes: number;
}

/** The content of the file that `--json` writes. */
export interface SpeedUpResult extends Provenance, Omit<Subject, 'tensors'>, EntryLoad {
  /** The part of {@link EntryLoad} that is of tensors that are sent whole. */
  readonly whole: EntryLoad;
  readonly bench: 'speedup';
  readonly model: ModelName;
  readonly encryption: string;
  readonly stepMs: number;
  readonly stepMsFrom: string;
  readonly scaling: Scaling;
  /** Of low rank. */
  readonly rank: number;
  readonly constants: Constants;
  readonly constantsFrom: string;
  readonly rows: readonly SpeedUpRow[];
  readonly checks: readonly Check[];
  readonly paper: readonly PaperPoint[];
}

/** The rows of all clusters. Those that were measured take the place of predictions. */
export function rowsOf(
  nodes: readonly number[],
  rates: readonly Rate[],
  { stepMs, scaling }: Pick<SpeedUpResult, 'stepMs' | 'scaling'>,
  load: ClusterLoad,
  constants: Constants,
  checks: readonly Check[],
): SpeedUpRow[] {
  return rates.flatMap(({ text: rate, bitsPerSecond }) =>
    WAY_KEYS.flatMap(way =>
      nodes.map((of): SpeedUpRow => {
        const cluster = { nodes: of, bitsPerSecond };
        const { travelled, computeMs, travelMs, sentBytes } = exchangeTimes(way, load, cluster, constants);
        const found = (part: Check['part']): Check | undefined =>
          checks.find(check => check.nodes === of && check.way === way && check.rate === rate && check.part === part);
        const whole = found('exchange');
        const travel = found('travel');
        const exchangeMs = whole?.measuredMs ?? computeMs + (travel?.measuredMs ?? travelMs);
        return {
          ...{ nodes: of, way, rate, source: whole ? 'measured' : travel ? 'in parts' : 'modelled', travelled },
          ...(whole === undefined && {
            computeMs: rounded(computeMs, 3),
            travelMs: rounded(travel?.measuredMs ?? travelMs, 3),
          }),
          exchangeMs: rounded(exchangeMs, 3),
          speedUp: rounded(speedUp(of, stepMs, exchangeMs, scaling), 3),
          sentBytes: (whole ?? travel)?.sentBytes ?? Math.round(sentBytes),
        };
      }),
    ),
  );
}

const WAY_KEYS = Object.keys(WAYS) as ClusterWay[];

/** The points of the paper for a model. With it each node computes as many examples as one alone. */
export function paperPoints(model: string, scaling: Scaling): PaperPoint[] {
  return scaling === 'weak' ? PAPER.filter(point => point.model === model) : [];
}

/** Where the paper has the same. */
export function paperPoint(points: readonly PaperPoint[], { nodes, way, rate }: SpeedUpRow): PaperPoint | undefined {
  return points.find(point => point.nodes === nodes && point.way === way && point.rate === rate);
}

export function columnsOf({
  model,
  stepMs,
  scaling,
}: Pick<SpeedUpResult, 'model' | 'stepMs' | 'scaling'>): Column<SpeedUpRow>[] {
  return [
    { heading: 'rate', value: row => row.rate },
    { heading: 'way', value: row => WAYS[row.way] },
    { heading: 'nodes', value: row => row.nodes, decimals: 0 },
    { heading: 'exchange', value: row => row.source },
    { heading: 'compute ms', value: row => row.computeMs, decimals: 1 },
    { heading: 'travel ms', value: row => row.travelMs, decimals: 1 },
    { heading: 'exchange ms', value: row => row.exchangeMs, decimals: 1 },
    { heading: 'step ms', value: row => ownStepMs(row.nodes, stepMs, scaling) + row.exchangeMs, decimals: 1 },
    { heading: 'speed-up', value: row => row.speedUp, decimals: 2 },
    { heading: 'paper', value: row => paperPoint(paperPoints(model, scaling), row)?.words },
    { heading: 'bytes sent', value: row => row.sentBytes, decimals: 0 },
  ];
}

export const CHECK_COLUMNS: readonly Column<Check>[] = [
  { heading: 'rate', value: row => row.rate },
  { heading: 'way', value: row => WAYS[row.way] },
  { heading: 'nodes', value: row => row.nodes, decimals: 0 },
  { heading: 'part', value: row => row.part },
  { heading: 'predicted ms', value: row => row.predictedMs, decimals: 1 },
  { heading: 'measured ms', value: row => row.measuredMs, decimals: 1 },
  { heading: 'measured ÷ predicted', value: row => row.ratio, decimals: 2 },
  { heading: 'iterations', value: row => row.iterations, decimals: 0 },
  { heading: 'predicted bytes', value: row => row.predictedBytes, decimals: 0 },
  { heading: 'sent bytes', value: row => row.sentBytes, decimals: 0 },
];

/**
 * What a table shows of many clusters: all that were measured, powers of two, and the largest of them. A page and a
 * file have them all.
 */
export function tableRows(rows: readonly SpeedUpRow[]): SpeedUpRow[] {
  const sizes = new Set(rows.map(({ nodes }) => nodes));
  const most = Math.max(...sizes);
  const few = sizes.size <= 8;
  return rows.filter(
    ({ nodes, source }) => few || source !== 'modelled' || nodes === most || (nodes & (nodes - 1)) === 0,
  );
}

/** What all figures rest on: names and values, in words. */
export function factsOf(result: SpeedUpResult): [name: string, words: string][] {
  const { model, elements, entries, payloadBytes, density, values, encryption } = result;
  const count = (value: number): string => value.toLocaleString('en-US');
  return [
    ...provenanceFacts(result),
    ['model', `${model}: ${count(elements)} elements, ${count(4 * elements)} bytes`],
    [
      'DGC',
      `density ${density}, ${values}: ${count(entries)} entries, a payload of ${count(payloadBytes)} bytes (${((4 * elements) / payloadBytes).toFixed(1)} times fewer)`,
    ],
    ['low rank', `${result.rank} columns`],
    ['step of one node', `${result.stepMs.toFixed(1)} ms, ${result.stepMsFrom}`],
    ['scaling', `${result.scaling}: ${SCALING_WORDS[result.scaling]}`],
    ['encryption', encryption],
    ['constants', constantsWords(result)],
  ];
}

export function constantsWords({
  constants,
  constantsFrom,
}: Pick<SpeedUpResult, 'constants' | 'constantsFrom'>): string {
  const { hopNs, lineShare, ...each } = constants;
  const nanoseconds = Object.entries(each).map(([name, ns]) => `${name} ${ns}`);
  return `${nanoseconds.join(', ')}; hop ${(hopNs / 1e6).toFixed(3)} ms, ${(100 * lineShare).toFixed(1)} % of a link's rate (${constantsFrom})`;
}

const SCALING_WORDS: Readonly<Record<Scaling, string>> = {
  weak: 'each of N nodes computes as many examples in a step as one node alone',
  strong: 'N nodes together compute as many examples in a step as one node alone, each 1/N of them',
};

/** How the figures are to be read. */
export const NOTES = [
  'speed-up: how many times as many examples in the same time as one node. With T(1) as the forward and backward pass of one node, T(N) is T(1) + exchange (weak scaling) or T(1)/N + exchange (strong): gradring does not exchange while it computes gradients unless asked to (overlap: 1).',
  'dense, 16 bits: gradring has no such ring; it is here to compare with. It, scatter and low rank are modelled only. Of low rank, encoding and decoding are measured, not what a step does beside them (clipping, error feedback, momentum), some 2 to 3 ns an element.',
  'exchange: "measured" is the whole exchange in a ring of the network lab; "in parts" has the travel of a ring of that size, and what a rank computes from one rank alone, because ranks that share processors would take turns; "modelled" is computed from the constants.',
  'Measured on processors, not on GPUs. The copies between TensorFlow.js and the exchange, and the work of the optimizer, are left out: see gradring bench optimizer.',
];
