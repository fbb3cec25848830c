import { SPAN_KINDS, THREAD_NAMES, threadNumber, type ThreadName, type TraceEvent } from './trace-event';

/** Time spent in the spans of each kind; of both threads, where both have them. In ms. */
export type SpansMs = Record<string, number>;

/** Those that wait. */
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

  /** From the begin of the first span to the end of the last. */
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

/** Two tables: ms, and shares of the recorded time. */
export function formatTotals(ranks: readonly RankTotals[]): string[] {
  const table = (unit: string, cell: (rank: RankTotals, column: string) => number) => [
    [`rank, ${unit}`, ...COLUMNS],
    ...ranks.map(rank => [String(rank.rank), ...COLUMNS.map(column => cell(rank, column).toFixed(1))]),
  ];
  const offsets = ranks.map(({ rank, durationMs, clockOffsetUs }) => [
    ...[String(rank), durationMs.toFixed(1)],
    clockOffsetUs === null ? '–' : (clockOffsetUs / 1000).toFixed(3),
  ]);
  return [
    ...align(table('ms', ({ spansMs }, column) => spansMs[column]!)),
    '',
    ...align(table('% of its time', ({ spansMs, durationMs }, column) => (100 * spansMs[column]!) / (durationMs || 1))),
    '',
    ...align([['rank', 'recorded ms', 'clock ahead of rank 0 by ms'], ...offsets]),
  ];
}

function waiting(thread: ThreadName): string {
  return `wait ${thread}`;
}

/** Columns, right-aligned, two spaces apart. */
function align(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map(row => row[column]!.length)));
  return rows.map(row => row.map((cell, column) => cell.padStart(widths[column]!)).join('  '));
}
