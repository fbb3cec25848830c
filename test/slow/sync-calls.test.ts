import { expectSameAsleep } from '../communicator/asleep';
import { cleanUpRanks } from '../support/rings';

afterEach(cleanUpRanks);

test.each([1, 3])('the Sync forms give what the others give: a ring of %i', expectSameAsleep);
