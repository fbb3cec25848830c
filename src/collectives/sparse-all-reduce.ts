import type { ValueFormat } from '../compression/value-format';
import { decodeGradientPayload, type ExpectedTensor, type ReceivedPayload } from '../wire/gradient-payload';
import { allGatherLists } from './all-gather';
import { blaming } from './sum-payloads';
import type { CollectiveCall } from './collective-call';

/** The tensors in one memory. Each rank sends them as one frame. */
export interface SparsePart {
  /** This rank's payload. If a gradient is not finite, the payloads of all parts say so. */
  readonly payload: Uint8Array;
  /** The same on all ranks. */
  readonly format: ValueFormat;
  readonly tensors: readonly ExpectedTensor[];
  /**
   * Decodes the payloads of all ranks, and adds them in the order of ranks.
   *
   * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors.
   */
  readonly sum: (payloads: readonly ReceivedPayload[]) => void;
}

/** A tensor with NaN or infinity. Then no rank applies the step. */
export interface NonFinite {
  /** The rank whose gradient it is; `undefined` if only the sum overflows. */
  readonly rank: number | undefined;
  /** Its number among all tensors. */
  readonly tensor: number;
}

/** What the ranks learn of each other in a step, beside the sums: the same on all. */
export interface Agreed {
  /** Set if some rank's gradient was not finite. Then no rank has an update. */
  readonly nonFinite?: NonFinite | undefined;
  /** The bits that some rank has told. 0 if a gradient was not finite. */
  readonly notices: number;
}

/**
 * Sparse all-reduce: gathers the payloads of all ranks (see {@link allGatherLists}). Then every rank decodes and adds
 * them **in the order of ranks**, so all get the same bits. Each rank sends N − 1 payloads, and holds as many until all
 * have arrived.
 *
 * @param parts One for each memory that has some of the tensors, the same on all ranks.
 * @returns what the payloads tell. If a tensor was not finite, the one of the lowest such rank: the sums are not valid.
 * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors. Then the sums
 *   are not valid.
 */
export async function sparseAllReduce(call: CollectiveCall, parts: readonly SparsePart[]): Promise<Agreed> {
  const bodies = await allGatherLists(
    call,
    parts.map(({ payload }) => payload),
  );
  const tensorCount = parts.reduce((sum, { tensors }) => sum + tensors.length, 0);
  const bytes = bodies.flat().reduce((sum, body) => sum + body.length, 0);
  const args = { sequence: call.sequence, stage: 'sum', tensors: tensorCount, bytes };
  return call.observer.record('decode', args, () => decodeAndSum(parts, bodies, tensorCount));
}

function decodeAndSum(parts: readonly SparsePart[], bodies: readonly Uint8Array[][], tensorCount: number): Agreed {
  const payloads: ReceivedPayload[][] = parts.map(() => []);
  for (const [rank, ofRank] of bodies.entries()) {
    for (const [i, { format, tensors }] of parts.entries()) {
      const payload = blaming(rank, () => decodeGradientPayload(ofRank[i]!, format, tensors, tensorCount));
      if ('nonFiniteTensor' in payload) return { nonFinite: { rank, tensor: payload.nonFiniteTensor }, notices: 0 };
      payloads[i]!.push(payload);
    }
  }
  for (const [i, part] of parts.entries()) part.sum(payloads[i]!);
  return { notices: payloads.flat().reduce((bits, { notices }) => bits | notices, 0) };
}
