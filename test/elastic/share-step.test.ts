import type { Communicator } from '../../src/communicator/communicator';
import type { ExchangeHandle } from '../../src/exchange/exchange-handle';
import { shareStep } from '../../src/core/share-step';

/** One rank's part; broadcasts go by way of a list: the root's part runs first. */
function rank(sent: Float32Array[], isRoot: boolean) {
  let next = 0;
  const broadcastSync = (array: Float32Array) => {
    if (isRoot) sent.push(array.slice());
    else array.set(sent[next++]!);
    return array;
  };
  const arrays = (from: number) => [0, 1].map(i => new Float32Array(4).fill(from + i));
  const [gradients, momenta] = [arrays(10), arrays(20)];
  /** What a compressor keeps of the first variable. */
  const shared = [new Float32Array(3).fill(30), new Float32Array(0)];
  const conclude = jest.fn();
  const at = (arrays: Float32Array[]) => (i: number) => arrays[i]!;
  const exchange = { gradient: at(gradients), momentum: at(momenta), shared: at(shared), conclude };
  const communicator = { broadcastSync };
  return {
    ...{ gradients, momenta, shared, conclude },
    communicator: communicator as unknown as Communicator,
    exchange: exchange as unknown as ExchangeHandle,
  };
}

const UPDATES = [new Float32Array(4).fill(1), new Float32Array(4).fill(2)];

test.each([true, false])('a rank that is behind gets updates and the state that all share; applied: %s', isApplied => {
  const sent: Float32Array[] = [];
  const [done, behind] = [rank(sent, true), rank(sent, false)];
  done.momenta[1]!.fill(7);
  done.shared[0]!.fill(8);
  const common = { sharesMomentum: [false, true], root: 0, isApplied };
  shareStep({ ...common, ...done, lastUpdates: UPDATES, isBehind: false });
  shareStep({ ...common, ...behind, lastUpdates: [], isBehind: true });
  const constant = (array: Float32Array) => [...new Set(array)];
  expect(behind.gradients.map(constant)).toEqual(isApplied ? [[1], [2]] : [[10], [11]]);
  expect(behind.momenta.map(constant)).toEqual([[20], [7]]); // the first is its own
  expect(behind.shared.map(constant)).toEqual([[8], []]);
  expect(behind.conclude.mock.calls).toEqual([[isApplied]]);
  expect(done.conclude).not.toHaveBeenCalled();
  expect(done.gradients.map(constant)).toEqual([[10], [11]]); // it may be in its next step by now
});

test('if it fails half-way, a rank that is behind can still run the step again: its momentum is as before', () => {
  const sent: Float32Array[] = [];
  const [done, behind] = [rank(sent, true), rank(sent, false)];
  done.momenta[0]!.fill(7);
  const common = { sharesMomentum: [true, true], root: 0, isApplied: true };
  shareStep({ ...common, ...done, lastUpdates: UPDATES, isBehind: false });
  sent.splice(2);
  expect(() => shareStep({ ...common, ...behind, lastUpdates: [], isBehind: true })).toThrow();
  expect([...behind.momenta[0]!]).toEqual([20, 20, 20, 20]);
  expect(behind.conclude).not.toHaveBeenCalled();
});
