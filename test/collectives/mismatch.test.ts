import type { Commands, RingCommand } from '../../src/comm-thread/thread-protocol';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import type { Transport } from '../../src/transport/transport';
import { Purpose } from '../../src/wire/frame';
import { failureOf } from '../support/rings';
import { runnerOf } from '../support/runners';
import { openTransports } from '../support/transports';

afterAll(closeAllSockets);

const [SMALL, LARGE] = [10, 2_000_000];
const purpose = Purpose.Call;

/** What a rank may call. */
function callsOf(transport: Transport) {
  const { runner, data } = runnerOf(transport, 4 * LARGE);
  const array = (elementCount: number) => ({ type: 'float32', data, elementCount }) as const;
  const run = <N extends RingCommand>(name: N, input: Commands[N]['input']) => runner.run(name, input);
  const sparse = { indices: data, values: data, count: 0, elementCount: SMALL, output: data };
  return {
    'a small all-reduce': () => run('allReduce', { array: array(SMALL), reduction: 'sum', purpose }),
    'a large all-reduce': () => run('allReduce', { array: array(LARGE), reduction: 'sum', purpose }),
    'a reduce-scatter': () => run('reduceScatter', { array: array(LARGE), reduction: 'sum' }),
    'an all-gather': () => run('allGather', { array: array(SMALL), lengths: 'variable', purpose }),
    'a broadcast': () => run('broadcast', { array: array(LARGE), root: 0, purpose }),
    'a send to the right': () => run('sendReceive', { array: array(LARGE) }),
    'a barrier': () => run('barrier', { purpose }),
    'a sparse all-reduce': () => run('sparseAllReduce', sparse),
  };
}

type Call = keyof ReturnType<typeof callsOf>;

const CALLS: readonly Call[] = [
  ...(['a small all-reduce', 'a large all-reduce', 'a reduce-scatter', 'an all-gather', 'a broadcast'] as const),
  ...(['a send to the right', 'a barrier', 'a sparse all-reduce'] as const),
];

// Some go in bulk, and some by the links.
describe.each(['shared memory', 'TCP', undefined] as const)('lanes: %s', lanes => {
  test.each(CALLS)('where one rank calls %s and the others something else, all are told', async odd => {
    for (const [i, usual] of CALLS.filter(call => call !== odd).entries()) {
      const worldSize = 2 + (i % 2);
      const { ring, close } = await openTransports(worldSize, { lanes });
      const oddRank = i % worldSize;
      const called = ring.map(transport => callsOf(transport)[transport.rank === oddRank ? odd : usual]());
      const failures = await Promise.all(called.map(call => failureOf(call)));
      const codes = failures.map(({ code }) => code);
      expect({ usual, codes }).toEqual({ usual, codes: codes.map(() => 'ERR_COLLECTIVE_MISMATCH') });
      await close();
    }
  });
});
