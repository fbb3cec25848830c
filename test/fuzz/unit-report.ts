import { isUnitReport, mostAdvanced, ranksBehind, type UnitReport } from '../../src/communicator/unit-report';
import type { GradringError } from '../../src/errors';
import { decodeValues, encodeValue } from '../../src/rank-values';
import type { Target } from './fuzz';
import { mutateJsonOrBytes } from './mutate-json';
import { isCount } from './payload-checker';
import { demand, refusalOf } from './refusal';

const NOTHING: UnitReport = {
  ...{ isNewcomer: false, isLeaving: false, isAfterCommit: false, isAdmitting: false },
  ...{ done: 0, lastName: 'nothing', lastResult: null, failedName: undefined },
};
const OWN = encodeValue({ ...NOTHING, done: 7, lastName: 'step 6', failedName: 'step 7' });

/** What a rank says that it has done, as JSON. */
export const unitReportTarget: Target = {
  name: 'unit-report',
  seeds: () =>
    [
      NOTHING,
      { ...NOTHING, isNewcomer: true },
      { ...NOTHING, done: 8, lastName: 'step 7', lastResult: { bytesSent: 7 } },
      { ...NOTHING, done: 6, lastName: 'step 5', failedName: 'step 6', isAdmitting: true },
    ].map(report => ({ bytes: encodeValue(report) })),
  mutate: mutateJsonOrBytes,
  run: bytes => {
    let reports: UnitReport[];
    try {
      reports = decodeValues([OWN, bytes], isUnitReport);
    } catch (error) {
      demand((error as GradringError).rank === 1, 'The rank is not named.');
      return { outcome: refusalOf(error) };
    }
    const source = mostAdvanced(reports);
    demand(isCount(source, 1), 'Nobody is the most advanced.');
    try {
      return { outcome: `accepted: ${ranksBehind(reports, reports[source]!).length} behind` };
    } catch (error) {
      refusalOf(error, 'ERR_COLLECTIVE_MISMATCH');
      return { outcome: 'accepted: does not fit' };
    }
  },
};
