import { ELEMENT_BYTES } from '../../collectives/element-type';
import type { Case } from './collective-benchmark';
import type { RunProgress } from './run-rank';

/** The fixed cost of an iteration is about that of this many bytes. */
const FIXED_BYTES = 256 * 1024;

/**
 * Estimates how long a run will still take, as if every byte took as long as those before. A warm-up of a given time
 * takes that time.
 */
export class TimeLeft {
  private startedAt: number | undefined;

  constructor(
    private readonly cases: readonly Case[],
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** The time in words. Empty as long as it is unknown. */
  text(progress: RunProgress): string {
    this.startedAt ??= this.now();
    const done = this.workUpTo(progress);
    if (done === 0) return '';
    const end = { row: this.cases.length, iterations: 0 };
    const left = this.workUpTo(end) - done;
    const warmUpMsDone = this.warmUpMsUpTo(progress);
    const warmUpMsLeft = this.warmUpMsUpTo(end) - warmUpMsDone;
    const workedMs = Math.max(0, this.now() - this.startedAt - warmUpMsDone);
    const seconds = Math.ceil(((workedMs / done) * left + warmUpMsLeft) / 1000);
    return seconds < 60 ? `${seconds} s left` : `${Math.ceil(seconds / 60)} min left`;
  }

  private warmUpMsUpTo({ row, iterations }: RunProgress): number {
    const current = this.cases[row];
    const cases = this.cases.slice(0, current !== undefined && iterations > current.warmUp ? row + 1 : row);
    return cases.reduce((sum, { warmUpMs }) => sum + warmUpMs, 0);
  }

  private workUpTo({ row, iterations }: RunProgress): number {
    const before = this.cases.slice(0, row).reduce((sum, measured) => sum + workOf(measured), 0);
    const current = this.cases[row];
    return before + (current === undefined ? 0 : (workOf(current) * iterations) / countOf(current));
  }
}

function countOf({ warmUp, iterations }: Case): number {
  return warmUp + iterations;
}

function workOf(measured: Case): number {
  return countOf(measured) * (measured.elements * ELEMENT_BYTES[measured.type] + FIXED_BYTES);
}
