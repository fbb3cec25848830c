import type { Reduction } from '../../src/comm-thread/thread-protocol';
import type { ReducedType } from '../../src/kernels/kernels';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { failureOf } from '../support/rings';
import { openTransports } from '../support/transports';
import { CALLS, expectTold, purpose, rankOf } from './mismatches';

afterAll(closeAllSockets);

// Each call among each other, by all lanes: test/slow/mismatch.test.ts.
test.each(CALLS.map((odd, i) => [odd, CALLS[(i + 1) % CALLS.length]!, i] as const))(
  'where one rank calls %s and the others %s, all are told',
  (odd, usual, i) => expectTold(odd, usual, 'shared memory', 2 + (i % 2), i % 2),
);

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
