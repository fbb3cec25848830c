import { type CollectiveCall, SEGMENT_BYTES } from './collective-call';
import { part } from './chunks';
import { runPipeline } from './pipeline';
import { GradringError } from '../errors';

/**
 * Ring all-gather of one body a rank, whose sizes may differ: every frame is forwarded byte for byte, N − 1 hops in all, so
 * a rank sends each body but its right neighbour's once.
 *
 * @param partCount Into how many frames each body is cut; the same on all ranks.
 * @param receive Is handed the parts of the other ranks' bodies as they come. The bytes are the callee's to keep.
 */
export async function allGatherParts(
  call: CollectiveCall,
  partCount: number,
  own: (part: number) => Uint8Array,
  receive: (origin: number, part: number, body: Buffer) => void,
): Promise<void> {
  const waiting: Awaited<ReturnType<CollectiveCall['receive']>>[] = []; // to be forwarded, in order
  await runPipeline({
    frameCount: (call.worldSize - 1) * partCount,
    lead: partCount,
    send: frame => (frame < partCount ? call.send(frame, own(frame), 'checksum') : call.forward(waiting.shift()!)),
    receive: async index => {
      const origin = call.leftBy(1 + Math.floor(index / partCount));
      const frame = await call.receive(origin, index % partCount);
      if (index < (call.worldSize - 2) * partCount) waiting.push(frame);
      receive(origin, index % partCount, frame.body);
    },
  });
}

/** All-gather of small bodies, a frame each. Returns them by rank, this rank's own among them. */
export async function allGatherBodies(call: CollectiveCall, own: Uint8Array): Promise<Uint8Array[]> {
  const bodies = new Array<Uint8Array>(call.worldSize);
  bodies[call.rank] = own;
  await allGatherParts(
    call,
    1,
    () => own,
    (origin, _part, body) => (bodies[origin] = body),
  );
  return bodies;
}

/**
 * All-gather of arrays of bytes. Returns them by rank, in memory of their own.
 *
 * @param lengths 'equal' if all ranks pass as many bytes (the call's fingerprint holds them to it), 'variable' if not:
 *   then the lengths go round first.
 */
export async function allGather(
  call: CollectiveCall,
  own: Uint8Array,
  lengths: 'equal' | 'variable',
): Promise<Uint8Array[]> {
  const byteLengths =
    lengths === 'equal' ? new Array<number>(call.worldSize).fill(own.length) : await allGatherLengths(call, own.length);
  const results = byteLengths.map(byteLength => new Uint8Array(byteLength));
  results[call.rank]!.set(own);
  const partCount = Math.max(1, Math.ceil(Math.max(...byteLengths) / SEGMENT_BYTES));
  const rangeOf = (rank: number, i: number) => part({ start: 0, count: byteLengths[rank]! }, i, partCount);
  const view = (bytes: Uint8Array, { start, count }: { start: number; count: number }) =>
    bytes.subarray(start, start + count);
  await allGatherParts(
    call,
    partCount,
    i => view(own, rangeOf(call.rank, i)).slice(),
    (origin, i, body) => {
      const range = rangeOf(origin, i);
      if (body.length !== range.count) {
        const words = `Rank ${origin} sent ${body.length} bytes to an all-gather where ${range.count} are due.`;
        throw new GradringError('ERR_PROTOCOL', words, { rank: origin });
      }
      results[origin]!.set(body, range.start);
    },
  );
  return results;
}

/** A barrier is an all-gather of nothing: a rank that has heard of all others knows that all have come. */
export async function barrier(call: CollectiveCall): Promise<void> {
  await allGatherBodies(call, new Uint8Array(0));
}

async function allGatherLengths(call: CollectiveCall, own: number): Promise<number[]> {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setFloat64(0, own, true);
  const bodies = await allGatherBodies(call, bytes);
  return bodies.map((body, rank) => {
    const length =
      body.length === 8 ? new DataView(body.buffer, body.byteOffset, body.byteLength).getFloat64(0, true) : NaN;
    if (!Number.isSafeInteger(length) || length < 0 || length > 2 ** 32) {
      throw new GradringError('ERR_PROTOCOL', `Rank ${rank} announced an array of ${length} bytes.`, { rank });
    }
    return length;
  });
}
