import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { CALLS, expectTold } from '../collectives/mismatches';

afterAll(closeAllSockets);

// Some go in bulk, and some by the links.
describe.each(['shared memory', 'TCP', undefined] as const)('lanes: %s', lanes => {
  test.each(CALLS)('where one rank calls %s and the others something else, all are told', async odd => {
    for (const [i, usual] of CALLS.filter(call => call !== odd).entries()) {
      const worldSize = 2 + (i % 2);
      await expectTold(odd, usual, lanes, worldSize, i % worldSize);
    }
  });
});
