import type { ValueFormat } from '../../compression/value-format';
import type { EntryLoad } from '../../exchange/routes/route';
import type { Column } from '../../table';
import { type Provenance, provenanceFacts } from '../provenance';
import type { Constants } from '../speedup/cluster-model';
import { constantsWords } from '../speedup/result';
import { measuredStepWords, type RouteCheck, type RouteRow } from './routes';

/** The content of the file that `--json` writes. */
export interface ScaleResult extends Provenance, EntryLoad {
  readonly bench: 'scale';
  /** The name of the model, or that of one matrix. */
  readonly gradient: string;
  /** The part of {@link EntryLoad} that is of tensors that are sent whole. */
  readonly whole: EntryLoad;
  readonly density: number;
  readonly values: ValueFormat;
  readonly linkRate: string;
  readonly linkDelay: string | undefined;
  readonly constants: Constants;
  readonly constantsFrom: string;
  readonly rows: readonly RouteRow[];
  /** The rate of the links on which the checks were measured. */
  readonly measureRate: string;
  readonly checks: readonly RouteCheck[];
}

export const COLUMNS: readonly Column<RouteRow>[] = [
  { heading: 'ranks', value: row => row.ranks, decimals: 0 },
  { heading: 'route', value: row => row.route },
  { heading: 'chosen', value: row => (row.isChosen ? 'yes' : '') },
  { heading: 'compute ms', value: row => row.computeMs, decimals: 1 },
  { heading: 'travel ms', value: row => row.travelMs, decimals: 1 },
  { heading: 'exchange ms', value: row => row.exchangeMs, decimals: 1 },
  { heading: 'bytes sent', value: row => row.sentBytes, decimals: 0 },
];

export const CHECK_COLUMNS: readonly Column<RouteCheck>[] = [
  { heading: 'ranks', value: row => row.ranks, decimals: 0 },
  { heading: 'route', value: row => row.route },
  { heading: 'expected ms', value: row => row.expectedMs, decimals: 1 },
  { heading: 'measured ms', value: row => row.measuredMs, decimals: 1 },
  { heading: 'error %', value: row => row.timeErrorPercent, decimals: 1 },
  { heading: 'iterations', value: row => row.iterations, decimals: 0 },
  { heading: 'expected bytes', value: row => row.expectedBytes, decimals: 0 },
  { heading: 'measured bytes', value: row => row.measuredBytes, decimals: 0 },
  { heading: 'error %', value: row => row.bytesErrorPercent, decimals: 1 },
];

/** What the expected rows rest on: names and values, in words. */
export function factsOf(result: ScaleResult): [name: string, words: string][] {
  const { gradient, elements, entries, payloadBytes, whole, density, values } = result;
  const count = (value: number): string => value.toLocaleString('en-US');
  return [
    ...provenanceFacts(result),
    [
      'gradient',
      `${gradient}: ${count(elements)} elements, ${count(4 * elements)} bytes, ${count(whole.elements)} elements sent whole`,
    ],
    ['DGC', `density ${density}, ${values}: ${count(entries)} entries, a payload of ${count(payloadBytes)} bytes`],
    ['links', linkWords(result.linkRate, result.linkDelay)],
    ['constants', constantsWords(result)],
  ];
}

/** What the checks compare. */
export function checkWords({ measureRate, linkDelay }: ScaleResult): string {
  return `Expected and measured, the travel of another step (${measuredStepWords()}) in rings of rank processes on this host, on paced links of ${linkWords(measureRate, linkDelay)}. What the ranks compute is left out, because they share the processors. The error is expected ÷ measured − 1.`;
}

function linkWords(rate: string, delay: string | undefined): string {
  return delay === undefined ? rate : `${rate} with a delay of ${delay}`;
}
