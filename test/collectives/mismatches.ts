import type { Commands, RingCommand } from '../../src/comm-thread/thread-protocol';
import type { ReducedType } from '../../src/kernels/kernels';
import type { Transport } from '../../src/transport/transport';
import { Purpose } from '../../src/wire/frame';
import { failureOf } from '../support/rings';
import { runnerOf } from '../support/runners';
import { type LaneKind, openTransports } from '../support/transports';

/** Ranks that call different things. */

const [SMALL, LARGE] = [10, 2_000_000];
export const purpose = Purpose.Call;

/** A rank that has room for arrays of so many bytes, each at the same place. */
export function rankOf(transport: Transport, bytes: number) {
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

export type Call = keyof ReturnType<typeof callsOf>;

export const CALLS: readonly Call[] = [
  ...(['a small all-reduce', 'a large all-reduce', 'a reduce-scatter', 'an all-gather', 'a broadcast'] as const),
  ...(['a send to the right', 'a barrier', 'a sparse all-reduce'] as const),
];

/** A rank calls something else than the others, which all call `usual`: all are told. */
export async function expectTold(
  odd: Call,
  usual: Call,
  lanes: LaneKind | undefined,
  worldSize: number,
  oddRank: number,
): Promise<void> {
  const { ring, close } = await openTransports(worldSize, { lanes });
  const called = ring.map(transport => callsOf(transport)[transport.rank === oddRank ? odd : usual]());
  const failures = await Promise.all(called.map(call => failureOf(call)));
  const codes = failures.map(({ code }) => code);
  expect({ usual, codes }).toEqual({ usual, codes: codes.map(() => 'ERR_COLLECTIVE_MISMATCH') });
  await close();
}
