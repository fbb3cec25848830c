import { LOOPS, testExits, testKills, testPauses } from '../communicator/process-ends';
import { cleanUpRanks } from '../support/rings';

afterEach(cleanUpRanks);

describe('over ipc', () => testKills('ipc', ['is idle', 'reduces small arrays', 'sleeps in a Sync call']));

describe('over tcp', () => {
  testKills('tcp', Object.keys(LOOPS) as (keyof typeof LOOPS)[]);
  testPauses('tcp');
  testExits('tcp'); // over ipc: the tests of faults
});
