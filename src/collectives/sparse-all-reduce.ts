import { decodeGradientPayload, type ReceivedPayload } from '../wire/gradient-payload';
import { allGatherParts } from './all-gather';
import { blaming, type SummedPart, sumPayloads } from './sum-payloads';
import type { CollectiveCall } from './collective-call';

/** The tensors in one memory. Each rank sends them as one frame. All ranks use the codec's format. */
export interface SparsePart extends SummedPart {
  /** This rank's payload. If a gradient is not finite, the payloads of all parts say so. */
  readonly payload: Uint8Array;
}

/** A tensor with NaN or infinity. Then no rank applies the step. */
export interface NonFinite {
  /** The rank whose gradient it is; `undefined` if only the sum overflows. */
  readonly rank: number | undefined;
  /** Its number among all tensors. */
  readonly tensor: number;
}

/**
 * Sparse all-reduce: gathers the payloads of all ranks (see {@link allGatherParts}). Then every rank decodes and adds
 * them **in the order of ranks**, so all get the same bits. Each rank sends N − 1 payloads, and holds as many until all
 * have arrived.
 *
 * @param parts One for each memory that has some of the tensors, the same on all ranks.
 * @returns the tensor that was not finite, of the lowest such rank; `undefined` if the sums are complete.
 * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors. Then the sums
 *   are not valid.
 */
export async function sparseAllReduce(
  call: CollectiveCall,
  parts: readonly SparsePart[],
): Promise<NonFinite | undefined> {
  const bodies = await allGatherPayloads(call, parts);
  const tensorCount = parts.reduce((sum, { tensors }) => sum + tensors.length, 0);
  const bytes = bodies.flat().reduce((sum, body) => sum + body.length, 0);
  const args = { sequence: call.sequence, stage: 'sum', tensors: tensorCount, bytes };
  return call.observer.record('decode', args, () => decodeAndSum(parts, bodies, tensorCount));
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
