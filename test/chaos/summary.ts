import { type Column, formatTable } from '../../src/table';
import type { Observed } from './chaos-run';
import type { Plan } from './plan';

/** The median and the most of times in ms; nothing if there are none. */
interface Times {
  readonly median: number | undefined;
  readonly most: number | undefined;
}

/** What came of the runs of one kind. */
interface KindRow {
  readonly kind: string;
  readonly runs: number;
  readonly broken: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly toldMs: Times;
  readonly endedMs: Times;
}

const COLUMNS: readonly Column<KindRow>[] = [
  { heading: 'fault', value: row => row.kind },
  { heading: 'runs', value: row => row.runs, decimals: 0 },
  { heading: 'broken', value: row => row.broken, decimals: 0 },
  { heading: 'told ms, median', value: row => row.toldMs.median, decimals: 0 },
  { heading: 'most', value: row => row.toldMs.most, decimals: 0 },
  { heading: 'ended ms, median', value: row => row.endedMs.median, decimals: 0 },
  { heading: 'most', value: row => row.endedMs.most, decimals: 0 },
  {
    heading: 'what the ranks came to',
    value: ({ outcomes }) =>
      Object.entries(outcomes)
        .map(([outcome, count]) => `${count} ${outcome}`)
        .join(', '),
  },
];

/** Adds up what came of many runs. */
export class Summary {
  private readonly kinds = new Map<
    string,
    { runs: number; broken: number; outcomes: Record<string, number>; told: number[]; took: number[] }
  >();
  private readonly neverStruck: Record<string, number> = {};
  private readonly failures: { number?: number; broken: readonly string[] }[] = [];
  private leftByKill = 0;
  private readonly startedAt = performance.now();

  constructor(private readonly seed: number) {}

  /** @param broken The promises that the run broke. */
  add(
    plan: Pick<Plan, 'number' | 'faults'>,
    {
      reports,
      toldMs,
      tookMs,
      leftByKill,
      isStruck,
    }: Pick<Observed, 'reports' | 'toldMs' | 'tookMs' | 'leftByKill' | 'isStruck'>,
    broken: readonly string[],
  ): void {
    const { kind } = plan.faults[0]!;
    this.leftByKill += leftByKill.length;
    if (broken.length > 0) this.failures.push({ number: plan.number, broken });
    if (!isStruck) {
      this.neverStruck[kind] = (this.neverStruck[kind] ?? 0) + 1;
      return;
    }
    const its = this.kinds.get(kind) ?? { runs: 0, broken: 0, outcomes: {}, told: [], took: [] };
    this.kinds.set(kind, its);
    its.runs++;
    if (broken.length > 0) its.broken++;
    for (const report of reports) {
      const outcome = report.told('error')?.code ?? (report.told('done') ? 'success' : 'ended');
      its.outcomes[outcome] = (its.outcomes[outcome] ?? 0) + 1;
    }
    its.told.push(...toldMs);
    if (tookMs !== undefined) its.took.push(tookMs);
  }

  /** @param moreDescriptors How many more files this process has open than before. */
  end(moreDescriptors: number): void {
    if (moreDescriptors > 0) this.failures.push({ broken: [`${moreDescriptors} files were left open`] });
  }

  get result() {
    const { seed, failures, leftByKill, neverStruck } = this;
    const seconds = (performance.now() - this.startedAt) / 1000;
    const kinds = [...this.kinds].map(([kind, { told, took, ...its }]): KindRow => {
      return { kind, ...its, toldMs: timesOf(told), endedMs: timesOf(took) };
    });
    const counts = [...kinds.map(its => its.runs), ...Object.values(neverStruck)];
    const runs = counts.reduce((sum, count) => sum + count, 0);
    return { seed, runs, seconds, failures, foldersLeftByKills: leftByKill, kinds, neverStruck };
  }

  /** The result as a table and a few lines. */
  get words(): string {
    const { runs, seconds, failures, kinds, foldersLeftByKills, neverStruck } = this.result;
    const missed = Object.entries(neverStruck);
    const missedRuns = missed.reduce((sum, [, count]) => sum + count, 0);
    const each = missed.map(([kind, count]) => `${count} of '${kind}'`).join(', ');
    return [
      ...formatTable(COLUMNS, kinds),
      `${runs} runs in ${seconds.toFixed(0)} s, seed ${this.seed}: ${failures.length} broke a promise.`,
      `${missedRuns} of them had ended before all that was planned struck them, and are not in the table${each && `: ${each}`}.`,
      `${foldersLeftByKills} folders were left in memory by ranks that were killed while their ring formed, or by a launcher that was killed before its ranks ran or while they ended.`,
    ].join('\n');
  }
}

function timesOf(times: readonly number[]): Times {
  const sorted = times.map(Math.round).sort((a, b) => a - b);
  return { median: sorted[sorted.length >> 1], most: sorted.at(-1) };
}
