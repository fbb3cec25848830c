import { GradringError } from '../errors';
import { shownName } from '../printable';
import { isAnything, isBoolean, isCount, isOptional, isText, isWith } from '../shape';

/** What a rank tells the others about its units when a ring has formed again. JSON. */
export interface UnitReport {
  /** It replaces a lost rank, and has no state yet. */
  readonly isNewcomer: boolean;
  /** It only stays until the others have done what it has done. */
  readonly isLeaving: boolean;
  /** How many units it has done. */
  readonly done: number;
  readonly lastName: string;
  readonly lastResult: unknown;
  /** Whether its last unit was the one after which newcomers may be let in. */
  readonly isAfterCommit: boolean;
  /** The unit that failed. Undefined between two units. */
  readonly failedName: string | undefined;
  /** Whether that is the unit that lets newcomers in. */
  readonly isAdmitting: boolean;
}

export const isUnitReport = isWith<UnitReport>({
  isNewcomer: isBoolean,
  isLeaving: isBoolean,
  done: isCount,
  lastName: isText,
  lastResult: isAnything,
  isAfterCommit: isBoolean,
  failedName: isOptional(isText),
  isAdmitting: isBoolean,
});

/** The lowest rank that has done the most units. −1 if all are newcomers. */
export function mostAdvanced(reports: readonly UnitReport[]): number {
  const most = Math.max(...reports.map(({ isNewcomer, done }) => (isNewcomer ? -1 : done)));
  return reports.findIndex(({ isNewcomer, done }) => !isNewcomer && done === most);
}

/**
 * The ranks that have not done the last unit of the most advanced one, and need it. A rank that is leaving does not
 * need it any more.
 *
 * @throws GradringError `ERR_COLLECTIVE_MISMATCH` if they failed in another unit, or if the others failed in different
 *   units.
 */
export function ranksBehind(reports: readonly UnitReport[], { done, lastName }: UnitReport): UnitReport[] {
  const members = reports.filter(report => !report.isNewcomer && !(report.isLeaving && report.done < done));
  const behind = members.filter(report => report.done < done);
  const failed = new Set(members.flatMap(report => (report.done === done ? (report.failedName ?? []) : [])));
  const fits = behind.every(report => report.done === done - 1 && report.failedName === lastName);
  if (fits && failed.size <= 1) return behind;
  const words = members.map(
    ({ done, lastName, failedName }) =>
      `${done} units done, the last '${shownName(lastName)}', in '${shownName(failedName ?? 'none')}'`,
  );
  throw new GradringError(
    'ERR_COLLECTIVE_MISMATCH',
    `When the ring formed again, the ranks did not fit together: ${words.join('; ')}.`,
  );
}
