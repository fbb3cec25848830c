import { allGatherBodies } from '../collectives/all-gather';
import type { CollectiveCall } from '../collectives/collective-call';
import { allReduce } from '../collectives/dense-ring';
import type { NonFinite, SparsePart } from '../collectives/sparse-all-reduce';
import { GradientCodec } from '../compression/gradient-codec';
import { protocolError } from '../wire/frame';
import { encodeGradientPayload, encodeNonFinite } from '../wire/gradient-payload';
import type { Means } from './means';
import type { StepArena } from './step-arena';

/**
 * This rank's payloads for a sparse all-gather, one for each arena. The sums take the place of the gradients, and
 * become means as they are completed.
 *
 * @param nonFiniteTensor The number of a tensor that is not finite on this rank, or −1.
 */
export function encodeParts(arenas: readonly StepArena[], nonFiniteTensor: number, means: Means): SparsePart[] {
  return arenas.map(({ context, codec, tensors, workspace, bytes }): SparsePart => {
    const { kernels } = context;
    const payload =
      nonFiniteTensor === -1
        ? encodeGradientPayload({ format: codec.format, counts: undefined, streams: codec.encode(tensors) })
        : encodeNonFinite(nonFiniteTensor);
    const summed = tensors.map(({ elementCount, count, gradient }) => ({ elementCount, count, sum: gradient }));
    const start = workspace + GradientCodec.workspaceBytes;
    const room = { start, bytes: bytes - start };
    const onSummed: SparsePart['onSummed'] = (tensor, region, count) =>
      means.take(kernels, tensors[tensor]!, region, count);
    return { kernels, codec, payload, tensors: summed, room, onSummed };
  });
}

/** The same sums by the dense ring, in the place of the gradients. What is not sent counts as zero. */
export async function denseAllReduce(call: CollectiveCall, arenas: readonly StepArena[]): Promise<void> {
  for (const { context, gradients, tensors } of arenas) {
    for (const tensor of tensors) tensor.expand();
    if (gradients.elementCount > 0) await allReduce(call.over(context), gradients, 'sum');
  }
}

/** The arenas of a step, with only those tensors that are always sent whole; or with the others. */
export function partOf(arenas: readonly StepArena[], part: 'whole' | 'others'): StepArena[] {
  return arenas.map(arena => ({
    ...arena,
    gradients: part === 'whole' ? arena.wholeGradients : arena.gradients,
    tensors: arena.tensors.filter(({ dense }) => dense === (part === 'whole')),
  }));
}

/** What is not finite on the lowest rank that has such a value. */
export async function findNonFinite(
  call: CollectiveCall,
  arenas: readonly StepArena[],
  nonFiniteTensor: number,
): Promise<NonFinite | undefined> {
  const tensorCount = arenas.reduce((sum, { tensors }) => sum + tensors.length, 0);
  const own = new Uint8Array(4);
  new DataView(own.buffer).setInt32(0, nonFiniteTensor, true);
  for (const [rank, body] of (await allGatherBodies(call, own)).entries()) {
    const tensor = body.length === 4 ? new DataView(body.buffer, body.byteOffset, 4).getInt32(0, true) : NaN;
    if (!(tensor >= -1 && tensor < tensorCount)) throw protocolError(`of rank ${rank} holds no tensor number`);
    if (tensor !== -1) return { rank, tensor };
  }
  return undefined;
}
