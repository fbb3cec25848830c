import { GradringError } from '../errors';
import { copyBytes } from '../memory/buffers';
import { LARGEST_VALUE } from '../rank-values';
import { opposite, type Side } from '../transport/ring-place';
import type { DataFrame } from '../transport/transport';
import { Purpose } from '../wire/frame';
import { part, type Range, SEGMENT_BYTES } from './chunks';
import { checkLength, type CollectiveCall } from './collective-call';
import { runPipeline } from './pipeline';

/**
 * Ring all-gather of one body per rank. Sizes may differ. Every body goes both ways round the ring, ⌈(N − 1)/2⌉ hops to
 * the right and ⌊(N − 1)/2⌋ to the left, and is forwarded byte for byte. Each rank sends N − 1 bodies.
 *
 * @param partCount Into how many frames each body is cut, the same on all ranks.
 * @param receive Called with each part of another rank's body. It may keep the bytes, but must not change them.
 */
async function allGatherParts(
  call: CollectiveCall,
  partCount: number,
  own: (part: number) => Uint8Array,
  receive: (origin: number, part: number, body: Buffer) => void,
): Promise<void> {
  const rightHops = Math.ceil((call.worldSize - 1) / 2);
  const flow = async (side: Side, hops: number): Promise<void> => {
    const from = opposite(side);
    const waiting: DataFrame[] = []; // to be forwarded, in order
    await runPipeline({
      frameCount: hops * partCount,
      lead: partCount,
      send: frame =>
        frame < partCount
          ? call.send(frame, own(frame), { side, checksum: true })
          : call.forward(waiting.shift()!, side),
      receive: async index => {
        const distance = 1 + Math.floor(index / partCount);
        const origin = call.leftBy(side === 'right' ? distance : -distance);
        const frame = await call.receive(origin, index % partCount, from);
        if (index < (hops - 1) * partCount) waiting.push(frame);
        receive(origin, index % partCount, frame.body);
      },
    });
  };
  await Promise.all([flow('right', rightHops), flow('left', call.worldSize - 1 - rightHops)]);
}

/** All-gather of one body from each rank, a frame each. Returns them by rank, with this rank's own. */
export async function allGatherBodies(call: CollectiveCall, own: Uint8Array): Promise<Uint8Array[]> {
  return (await allGatherLists(call, [own])).map(([body]) => body!);
}

/** All-gather of several bodies from each rank, equally many, a frame each. Returns them as {@link allGatherBodies}. */
export async function allGatherLists(call: CollectiveCall, own: readonly Uint8Array[]): Promise<Uint8Array[][]> {
  const bodies = Array.from({ length: call.worldSize }, (_, rank) => (rank === call.rank ? [...own] : []));
  await allGatherParts(
    call,
    own.length,
    i => own[i]!,
    (origin, i, body) => (bodies[origin]![i] = body),
  );
  return bodies;
}

/**
 * All-gather of arrays of bytes. Returns them by rank, in memory of their own.
 *
 * @param lengths 'equal' if all ranks pass equally many bytes (the call's fingerprint makes sure of it). If
 *   'variable', the lengths are gathered first.
 */
export async function allGather(
  call: CollectiveCall,
  own: Uint8Array,
  lengths: 'equal' | 'variable',
): Promise<Uint8Array[]> {
  const byteLengths =
    lengths === 'equal' ? new Array<number>(call.worldSize).fill(own.length) : await allGatherLengths(call, own.length);
  const results = byteLengths.map(byteLength => new Uint8Array(byteLength));
  copyBytes(results[call.rank]!, own);
  const partCount = Math.max(1, Math.ceil(Math.max(...byteLengths) / SEGMENT_BYTES));
  const rangeOf = (rank: number, i: number) => part({ start: 0, count: byteLengths[rank]! }, i, partCount);
  const view = (bytes: Uint8Array, { start, count }: Range) => bytes.subarray(start, start + count);
  await allGatherParts(
    call,
    partCount,
    i => view(own, rangeOf(call.rank, i)),
    (origin, i, body) => {
      const range = rangeOf(origin, i);
      checkLength(origin, body.length, range.count);
      copyBytes(results[origin]!.subarray(range.start), body);
    },
  );
  return results;
}

/** An all-gather of empty bodies. A rank that has received from all others knows that all have called it. */
export async function barrier(call: CollectiveCall): Promise<void> {
  await allGatherBodies(call, new Uint8Array(0));
}

async function allGatherLengths(call: CollectiveCall, own: number): Promise<number[]> {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setFloat64(0, own, true);
  const bodies = await allGatherBodies(call, bytes);
  // What gradring itself gathers are small values.
  const longest = call.fingerprint.purpose === Purpose.Call ? 2 ** 32 : LARGEST_VALUE;
  return bodies.map((body, rank) => {
    const length =
      body.length === 8 ? new DataView(body.buffer, body.byteOffset, body.byteLength).getFloat64(0, true) : NaN;
    if (!Number.isSafeInteger(length) || length < 0 || length > longest) {
      throw new GradringError('ERR_PROTOCOL', `Rank ${rank} announced an array of ${length} bytes.`, { rank });
    }
    return length;
  });
}
