import { attempt } from '../attempt';
import type { RankError, RankNote } from '../environment/launcher-pipe';

/** What a rank has told its launcher so far. */
export interface RankReport {
  /** Whether it has called `connect`. */
  readonly connects: boolean;
  /** Whether it waits for the ring of the run to form. */
  readonly isWaiting: boolean;
  /** How many rings of the run it has joined. */
  readonly rings: number;
  /** Whether it saves and stops when it is told to. */
  readonly isListening: boolean;
  /** Whether it has left its elastic ring by itself. */
  readonly hasLeft: boolean;
  /** Whether all ranks have saved because one was told to stop. */
  readonly hasSaved: boolean;
  /** The error that it raised last. */
  readonly error?: RankError;
}

export const NO_REPORT: RankReport = {
  connects: false,
  isWaiting: false,
  rings: 0,
  isListening: false,
  hasLeft: false,
  hasSaved: false,
};

/** The report after one more line from the rank. A line that is no note changes nothing. */
export function reportAfter(report: RankReport, line: string): RankReport {
  const note = attempt(() => JSON.parse(line) as RankNote | null);
  switch (note?.kind) {
    case 'connects':
      return { ...report, connects: true, isWaiting: note.isRunsRing };
    case 'joined':
      return { ...report, isWaiting: false, rings: report.rings + (report.isWaiting ? 1 : 0) };
    case 'listens':
      return { ...report, isListening: note.isListening === true };
    case 'left':
      return { ...report, hasLeft: true };
    case 'saved':
      return { ...report, hasSaved: true };
    case 'failed':
      if (!/^ERR_[A-Z_]+$/.test(note.code) || !(note.rank === undefined || Number.isInteger(note.rank))) return report;
      return { ...report, isWaiting: false, error: { code: note.code, rank: note.rank } };
    default:
      return report;
  }
}
