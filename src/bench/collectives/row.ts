import type { AllReduceAlgorithm } from '../../collectives/dense-ring';
import type { ElementType, Reduction } from '../../communicator/communicator';
import type { RouteName } from '../../compression/compression-method';
import type { ValueFormat } from '../../compression/value-format';
import type { TransportName } from '../../environment/rank-options';
import type { Column } from '../../table';
import type { Timings } from '../statistics';
import { sizeText } from './byte-sizes';
import type { CollectiveName, SparseCase, SparseSplit } from './collective-benchmark';
import type { Medium } from './media';

/** One line of `gradring bench <collective> --json`. Times are those of rank 0. */
export interface CollectiveRow {
  readonly collective: CollectiveName;
  readonly ranks: number;
  readonly elements: number;
  /** 0 for a barrier. */
  readonly bytes: number;
  readonly type?: ElementType;
  readonly op?: Reduction;
  readonly root?: number;
  /** The transport that was asked for. */
  readonly transport: TransportName;
  /** What carried the data of any rank. Empty if there is only one rank. */
  readonly carriedBy: readonly Medium[];
  /** How arrays of this size are all-reduced. Left out for other collectives, and if there is only one rank. */
  readonly algorithm?: AllReduceAlgorithm;
  readonly iterations: number;
  readonly timeUs: Timings;
  /** bytes ÷ median time, in 10⁹ bytes a second. */
  readonly algbwGBps: number;
  readonly busbwGBps: number;
  /** Bytes that a rank sends for one operation: the maximum over the ranks. */
  readonly wireBytesSent: number;
  /** How many elements of all ranks were wrong, in all iterations. Left out if results were not checked. */
  readonly wrong?: number;
  /** busbw ÷ the rate of the links. Left out if that is unknown. */
  readonly lineFraction?: number;
  readonly density?: number;
  readonly values?: ValueFormat;
  /** How the entries were to be sent. */
  readonly way?: SparseCase['way'];
  /** How they were sent. */
  readonly travelled?: RouteName;
  /** Medians of the parts of a sparse step, on rank 0's comm thread. */
  readonly timesMs?: SparseSplit;
  /** The parts of the fastest step, of that half for which the ranks were ready most nearly at once. */
  readonly evenMs?: SparseSplit;
}

export const COLUMNS: readonly Column<CollectiveRow>[] = [
  { heading: 'size', value: ({ bytes }) => (bytes === 0 ? undefined : sizeText(bytes)), decimals: 0 },
  { heading: 'count', value: ({ bytes, elements }) => (bytes === 0 ? undefined : elements), decimals: 0 },
  { heading: 'type', value: row => row.type },
  { heading: 'op', value: row => row.op },
  { heading: 'root', value: row => row.root, decimals: 0 },
  { heading: 'density', value: row => row.density, decimals: 'all' },
  { heading: 'values', value: row => row.values },
  { heading: 'way', value: row => row.way && (row.way === 'auto' ? `auto: ${row.travelled}` : row.way) },
  { heading: 'time min µs', value: row => row.timeUs.min, decimals: 1 },
  { heading: 'p50 µs', value: row => row.timeUs.p50, decimals: 1 },
  { heading: 'p99 µs', value: row => row.timeUs.p99, decimals: 1 },
  { heading: 'algbw GB/s', value: row => (row.bytes === 0 ? undefined : row.algbwGBps), decimals: 4 },
  { heading: 'busbw GB/s', value: row => (row.bytes === 0 ? undefined : row.busbwGBps), decimals: 4 },
  { heading: 'of line rate', value: row => row.lineFraction, decimals: 3 },
  { heading: 'compress ms', value: row => row.timesMs?.compress, decimals: 3 },
  { heading: 'encode ms', value: row => row.timesMs?.encode, decimals: 3 },
  { heading: 'wait ms', value: row => row.timesMs?.wait, decimals: 3 },
  { heading: 'wire ms', value: row => row.timesMs?.wire, decimals: 3 },
  { heading: 'decode ms', value: row => row.timesMs?.decode, decimals: 3 },
  { heading: 'wire bytes a rank', value: row => row.wireBytesSent, decimals: 0 },
  { heading: '#wrong', value: row => row.wrong, decimals: 0 },
];
