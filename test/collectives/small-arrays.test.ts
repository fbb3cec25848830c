import type { Communicator } from '../../src/communicator/communicator';
import { closeRing, connectRing } from '../support/rings';

/** Bytes that a rank sends for one all-reduce, of each that it holds. */
async function sentForEach(ring: readonly Communicator[], elementCount: number): Promise<number> {
  const [first] = ring;
  const before = first!.traffic.bytesSent;
  await Promise.all(ring.map(rank => rank.allReduce(new Float32Array(elementCount))));
  return (first!.traffic.bytesSent - before) / (4 * elementCount);
}

test('arrays of up to 77 KiB are gathered by four ranks, larger ones reduced on their way', async () => {
  const ring = await connectRing(4);
  try {
    expect(await sentForEach(ring, 19_660)).toBeCloseTo(3, 1); // N − 1
    expect(await sentForEach(ring, 19_661)).toBeCloseTo(1.5, 1); // 2(N − 1) ÷ N
  } finally {
    await closeRing(ring);
  }
});
