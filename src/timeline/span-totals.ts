import { type Column, formatTable } from '../table';
import { SPAN_KINDS } from '../observer';
import { THREAD_NAMES, threadNumber, type ThreadName, type TraceEvent } from './trace-event';

/** Time spent in the spans of each kind, in ms. It is the sum over both threads if both have such spans. */
export type SpansMs = Record<string, number>;

/** The threads that wait. */
const WAITING: readonly ThreadName[] = ['training', 'comm', 'comm, to the left'];

const COLUMNS = SPAN_KINDS.flatMap(kind => (kind === 'wait' ? WAITING.map(waiting) : [kind]));

/** Adds up the spans of one rank. */
export class SpanTotals {
  private first = Infinity;
  private last = -Infinity;
  private readonly microseconds = new Map<string, number>(COLUMNS.map(column => [column, 0]));

  constructor(private readonly rank: number) {}

  add(event: TraceEvent): void {
    if (event.ph !== 'X') return;
    this.first = Math.min(this.first, event.ts);
    this.last = Math.max(this.last, event.ts + event.dur);
    const thread = THREAD_NAMES[event.tid - threadNumber(this.rank, 'training')];
    const column = event.name === 'wait' ? waiting(thread) : event.name;
    const before = this.microseconds.get(column);
    if (before !== undefined) this.microseconds.set(column, before + event.dur);
  }

  /** From the start of the first span to the end of the last one. */
  get durationMs(): number {
    return Math.max(0, this.last - this.first) / 1000;
  }

  get spansMs(): SpansMs {
    return Object.fromEntries([...this.microseconds].map(([column, time]) => [column, time / 1000]));
  }
}

/** What the summary shows of a rank. */
export interface RankTotals {
  readonly rank: number;
  readonly durationMs: number;
  /** How far its clock was ahead of rank 0's; `null` if that is unknown. */
  readonly clockOffsetUs: number | null;
  readonly spansMs: SpansMs;
}

/** Three tables: times in ms, shares of the recorded time, and clocks. */
export function formatTotals(ranks: readonly RankTotals[]): string[] {
  const table = (unit: string, cell: (rank: RankTotals, column: string) => number): string[] =>
    formatTable<RankTotals>(
      [
        { heading: `rank, ${unit}`, value: ({ rank }) => rank, decimals: 0 },
        ...COLUMNS.map(column => ({ heading: column, value: (rank: RankTotals) => cell(rank, column), decimals: 1 })),
      ],
      ranks,
    );
  return [
    ...table('ms', ({ spansMs }, column) => spansMs[column]!),
    '',
    ...table('% of its time', ({ spansMs, durationMs }, column) => (100 * spansMs[column]!) / (durationMs || 1)),
    '',
    ...formatTable(CLOCK_COLUMNS, ranks),
  ];
}

const CLOCK_COLUMNS: readonly Column<RankTotals>[] = [
  { heading: 'rank', value: ({ rank }) => rank, decimals: 0 },
  { heading: 'recorded ms', value: ({ durationMs }) => durationMs, decimals: 1 },
  {
    heading: 'clock ahead of rank 0 by ms',
    value: ({ clockOffsetUs }) => (clockOffsetUs === null ? undefined : clockOffsetUs / 1000),
    decimals: 3,
  },
];

function waiting(thread: ThreadName): string {
  return `wait ${thread}`;
}
