import { recorded } from '../timeline/timeline';
import { decodeGradientPayload, type ReceivedPayload } from '../wire/gradient-payload';
import { allGatherParts } from './all-gather';
import { blaming } from './blame';
import type { CollectiveCall } from './collective-call';
import { type SummedPart, sumPayloads } from './sum-payloads';

/** The tensors in one memory, which travel as one frame of each rank. The codec's format is that of all ranks. */
export interface SparsePart extends SummedPart {
  /** This rank's. A rank that has something not finite says so in all its parts. */
  readonly payload: Uint8Array;
}

/** A tensor that is NaN or infinite, so that nobody applies anything. */
export interface NonFinite {
  /** The rank whose own gradient it is; `undefined` if only the sum of all overflows. */
  readonly rank: number | undefined;
  /** Its number among all tensors. */
  readonly tensor: number;
}

/**
 * Sparse all-reduce: an all-gather of every rank's payload (N − 1 hops, a payload forwarded byte for byte), which every
 * rank then decodes and adds **in the order of ranks**, so that all get the same bits. Bytes a rank: N − 1 payloads,
 * and as many are held until all have come.
 *
 * @param parts One for each memory that the tensors lie in, the same on all ranks.
 * @returns what was not finite, of the lowest rank that had it; `undefined` when the sums stand.
 * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors. The sums are void
 *   then.
 */
export async function sparseAllReduce(
  call: CollectiveCall,
  parts: readonly SparsePart[],
): Promise<NonFinite | undefined> {
  const bodies = await allGatherPayloads(call, parts);
  const tensorCount = parts.reduce((sum, { tensors }) => sum + tensors.length, 0);
  const bytes = bodies.flat().reduce((sum, body) => sum + body.length, 0);
  const args = { sequence: call.sequence, stage: 'sum', tensors: tensorCount, bytes };
  return recorded(call.timeline, 'decode', args, () => decodeAndSum(parts, bodies, tensorCount));
}

function decodeAndSum(
  parts: readonly SparsePart[],
  bodies: readonly Uint8Array[][],
  tensorCount: number,
): NonFinite | undefined {
  const payloads: ReceivedPayload[][] = parts.map(() => []);
  for (const [rank, ofRank] of bodies.entries()) {
    for (const [i, { codec, tensors }] of parts.entries()) {
      const payload = blaming(rank, () => decodeGradientPayload(ofRank[i]!, codec.format, tensors, tensorCount));
      if ('nonFiniteTensor' in payload) return { rank, tensor: payload.nonFiniteTensor };
      payloads[i]!.push(payload);
    }
  }
  for (const [i, part] of parts.entries()) sumPayloads(part, payloads[i]!);
  return undefined;
}

/** Every rank's payloads, by rank and part. */
async function allGatherPayloads(call: CollectiveCall, parts: readonly SparsePart[]): Promise<Uint8Array[][]> {
  const bodies = Array.from({ length: call.worldSize }, () => new Array<Uint8Array>(parts.length));
  bodies[call.rank] = parts.map(({ payload }) => payload);
  await allGatherParts(
    call,
    parts.length,
    i => parts[i]!.payload,
    (origin, i, body) => (bodies[origin]![i] = body),
  );
  return bodies;
}
