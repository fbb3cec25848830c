import { CallBox } from '../../src/comm-thread/call-box';
import type { Reduction, Request } from '../../src/comm-thread/thread-protocol';
import type { ElementType } from '../../src/kernels/kernels';

const TYPES: ElementType[] = ['float32', 'float64', 'int32', 'uint8'];
const REDUCTIONS: Reduction[] = ['sum', 'mean', 'min', 'max'];
const ARRAY = { type: 'float64', data: 0xffff_fff8, elementCount: 2 ** 30 } as const;
const TRAFFIC = { bytesSent: 2 ** 40 + 1, bytesReceived: 3 };

const barrier = (id: number): Request => ({ id, name: 'barrier', input: {}, generation: 0 });

/** The ends of two threads. */
function box(): { asking: CallBox; asked: CallBox } {
  const asking = new CallBox();
  return { asking, asked: new CallBox(asking.memory) };
}

it.each<Pick<Request, 'name' | 'input'>>([
  ...TYPES.flatMap(type =>
    REDUCTIONS.map(reduction => ({ name: 'allReduce', input: { array: { ...ARRAY, type }, reduction } }) as const),
  ),
  { name: 'reduceScatter', input: { array: ARRAY, reduction: 'max' } },
  { name: 'broadcast', input: { array: ARRAY, root: 63 } },
  { name: 'sendReceive', input: { array: ARRAY } },
  { name: 'barrier', input: {} },
])('carries %j', call => {
  const { asking, asked } = box();
  const request: Request = { id: 2 ** 31 - 1, ...call, generation: -1 };
  asking.put({ id: 1, name: 'broadcast', input: { array: { ...ARRAY, data: 8 }, root: 1 }, generation: 5 }); // before it
  expect(asking.put(request)).toBe(true);
  expect(asked.take()).toMatchObject(request);
});

it('leaves what is more than some numbers to a message', () => {
  const { asking } = box();
  for (const name of ['allGather', 'sparseAllReduce', 'exchange', 'openExchange', 'close', 'rejoin'] as const)
    expect(asking.put({ id: 1, name, input: {}, generation: 0 })).toBe(false);
});

it('carries the answer to the request that was taken, and to no other', () => {
  const { asking, asked } = box();
  expect(asked.answer(1, TRAFFIC)).toBe(false); // a message's
  for (const id of [2, 3]) {
    asking.put(barrier(id));
    expect(asked.take().id).toBe(id);
    expect(asked.answer(id - 1, TRAFFIC)).toBe(false);
    expect(asking.answerTo(id)).toBeUndefined();
    expect(asked.answer(id, TRAFFIC)).toBe(true);
    expect(asking.answerTo(id)).toEqual(TRAFFIC);
    expect(asking.answerTo(id + 1)).toBeUndefined();
  }
});
