import type { Commands, Reduction, RingCommand } from '../../src/comm-thread/thread-protocol';
import type { ReducedType } from '../../src/kernels/kernels';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import type { Transport } from '../../src/transport/transport';
import { Purpose } from '../../src/wire/frame';
import { failureOf } from '../support/rings';
import { runnerOf } from '../support/runners';
import { openTransports } from '../support/transports';

afterAll(closeAllSockets);

const [SMALL, LARGE] = [10, 2_000_000];
const purpose = Purpose.Call;

/** A rank that has room for arrays of so many bytes, each at the same place. */
function rankOf(transport: Transport, bytes: number) {
  const { runner, data } = runnerOf(transport, bytes);
  const array = (elementCount: number, type: ReducedType = 'float32') => ({ type, data, elementCount });
  const run = <N extends RingCommand>(name: N, input: Commands[N]['input']) => runner.run(name, input);
  return { array, run, data };
}

/** What a rank may call. */
function callsOf(transport: Transport) {
  const { array, run, data } = rankOf(transport, 4 * LARGE);
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

type Make = (rank: ReturnType<typeof rankOf>) => Promise<unknown>;

const allReduce =
  (count: number, type: ReducedType, reduction: Reduction): Make =>
  ({ array, run }) =>
    run('allReduce', { array: array(count, type), reduction, purpose });
const reduceScatter: Make = ({ array, run }) => run('reduceScatter', { array: array(8), reduction: 'sum' });
const broadcast =
  (root: number): Make =>
  ({ array, run }) =>
    run('broadcast', { array: array(8), root, purpose });
const allGather =
  (count: number, lengths: 'equal' | 'variable'): Make =>
  ({ array, run }) =>
    run('allGather', { array: array(count), lengths, purpose });
const sum = allReduce(8, 'float32', 'sum');

// prettier-ignore
test.each<[string, Make, Make, string, string, string]>([
  ['lengths, of which one is 0', sum, allReduce(0, 'float32', 'sum'), 'allReduce(sum, float32[8])', 'allReduce(sum, float32)', 'All ranks must pass arrays of the same length.'],
  ['types', sum, allReduce(8, 'int32', 'sum'), 'allReduce(sum, float32[8])', 'allReduce(sum, int32[8])', 'All ranks must make the same calls'],
  ['reductions', sum, allReduce(8, 'float32', 'max'), 'allReduce(sum, float32[8])', 'allReduce(max, float32[8])', 'All ranks must make the same calls'],
  ['halves', sum, reduceScatter, 'allReduce(sum, float32[8])', 'reduceScatter(sum, float32[8])', 'All ranks must make the same calls'],
  ['roots', broadcast(0), broadcast(1), 'broadcast(float32[8], root 0)', 'broadcast(float32[8], root 1)', 'All ranks must make the same calls'],
  ['lengths to gather', allGather(8, 'equal'), allGather(9, 'equal'), 'allGather(float32[8])', 'allGather(float32[9])', 'If that is meant so, pass { variableLength: true } to allGather on all ranks.'],
  ['gathers of variable length', allGather(0, 'equal'), allGather(0, 'variable'), 'allGather(float32)', 'allGather(float32, variableLength)', 'Pass { variableLength: true } to allGather on all ranks, or on none.'],
])('%s that differ: all ranks are told who called what', async (_, first, second, firstWords, secondWords, advice) => {
  const { ring, close } = await openTransports(2);
  const calls = [first, second].map((make, i) => make(rankOf(ring[i]!, 64)));
  for (const { message } of await Promise.all(calls.map(failureOf))) {
    expect(message).toMatch(/rank \d is in .*, but rank \d is in /);
    for (const words of [firstWords, secondWords, advice]) expect(message).toContain(words);
  }
  await close();
});
