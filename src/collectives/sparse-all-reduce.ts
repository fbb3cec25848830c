import type { Pointer } from '../kernels/kernels';
import { decodeGradientPayload, type ExpectedTensor, type GradientPayload } from '../wire/gradient-payload';
import { GradringError } from '../errors';
import { allGatherBodies } from './all-gather';
import { type CollectiveCall, SEGMENT_BYTES } from './collective-call';

/** A tensor to be summed over the ranks. */
export interface SummedTensor extends ExpectedTensor {
  /** Where the sum goes: elementCount float32, 16-byte aligned. What is there before is overwritten. */
  readonly sum: Pointer;
}

/** A tensor that is NaN or infinite, so that nobody applies anything. */
export interface NonFinite {
  /** The rank whose own gradient it is; `undefined` if only the sum of all overflows. */
  readonly rank: number | undefined;
  readonly tensor: number;
}

/**
 * Sparse all-reduce: an all-gather of every rank's payload (N − 1 hops, a payload forwarded byte for byte), which every
 * rank then decodes and adds **in the order of ranks**, so that all get the same bits. Bytes a rank: N − 1 payloads.
 *
 * @returns what was not finite, of the lowest rank that had it; `undefined` when the sums stand.
 * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors.
 */
export async function sparseAllReduce(
  call: CollectiveCall,
  own: Uint8Array,
  tensors: readonly SummedTensor[],
): Promise<NonFinite | undefined> {
  const bodies = await allGatherBodies(call, own);
  const payloads: GradientPayload[] = [];
  for (const [rank, body] of bodies.entries()) {
    const payload = decodeFrom(rank, body, tensors);
    if ('nonFiniteTensor' in payload) return { rank, tensor: payload.nonFiniteTensor };
    payloads.push(payload);
  }
  for (const { sum, elementCount } of tensors) {
    new Float32Array(call.context.memory.buffer, sum, elementCount).fill(0);
  }
  for (const payload of payloads) addPayload(call, payload, tensors);
  return undefined;
}

function decodeFrom(rank: number, body: Uint8Array, tensors: readonly SummedTensor[]) {
  try {
    return decodeGradientPayload(body, tensors);
  } catch (error) {
    const words = `Rank ${rank} sent a bad payload: ${(error as Error).message}`;
    throw new GradringError('ERR_PROTOCOL', words, { rank }, { cause: error });
  }
}

/** Adds a checked payload to the sums, a scratch's fill at a time, for the kernels only see the shared memory. */
function addPayload(call: CollectiveCall, payload: GradientPayload, tensors: readonly SummedTensor[]): void {
  const { kernels, memory, scratch } = call.context;
  const bytes = new Uint8Array(memory.buffer);
  const scratchEntries = SEGMENT_BYTES / 8;
  const scratchValues = scratch + SEGMENT_BYTES / 2;
  let sparseAt = 0;
  let denseAt = 0;
  tensors.forEach(({ sum, dense }, t) => {
    const count = payload.counts[t]!;
    if (dense) {
      const room = SEGMENT_BYTES / 4;
      for (let done = 0; done < count; done += room) {
        const now = Math.min(room, count - done);
        bytes.set(payload.dense.subarray((denseAt + done) * 4, (denseAt + done + now) * 4), scratch);
        kernels.reduce('sum', 'float32', sum + done * 4, scratch, now);
      }
      denseAt += count;
    } else {
      for (let done = 0; done < count; done += scratchEntries) {
        const now = Math.min(scratchEntries, count - done);
        const from = (sparseAt + done) * 4;
        bytes.set(payload.indices.subarray(from, from + now * 4), scratch);
        bytes.set(payload.values.subarray(from, from + now * 4), scratchValues);
        kernels.scatterAdd(sum, scratch, scratchValues, now);
      }
      sparseAt += count;
    }
  });
}
