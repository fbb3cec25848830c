import { expectedBits } from '../compression/expected-size';
import type { CodedTensor } from '../compression/gradient-streams';
import type { ValueFormat } from '../compression/value-format';

/** The entries of a step in one arena, as far as all ranks know them. */
interface CostedArena {
  readonly codec: { readonly format: ValueFormat };
  readonly tensors: readonly CodedTensor[];
}

/** What a step costs each rank. */
export interface StepCost {
  /** How the entries are expected to travel in less time. */
  readonly cheaper: 'sparse' | 'dense';
  /** Bytes that a rank would send for a dense ring all-reduce. */
  readonly denseBytes: number;
}

/** About the size of a frame header and a payload table, for each arena. */
const FRAME_OVERHEAD_BYTES = 160;

/** How long an entry, a byte and a hop take, in ns, as measured (docs/performance.md). Only their ratios matter. */
const ENCODE_NS = 6;
const DECODE_NS = 9;
const LOCAL_BYTE_NS = 1.5;
/** On a link of 1 Gbit/s. */
const NETWORK_BYTE_NS = 8;
const HOP_NS = 300_000;

/**
 * Estimates what a step costs. In a sparse all-gather a rank sends N − 1 payloads, encodes its own and decodes all N;
 * on the dense ring it sends 2(N − 1)/N of the gradient. The estimate depends only on what all ranks know, so that all
 * make the same choice. They do not know how fast the network is, so between hosts a slow one is assumed.
 */
export function costOf(arenas: readonly CostedArena[], worldSize: number, isLocal: boolean): StepCost {
  let elements = 0;
  let entries = 0;
  let payloadBytes = 0;
  for (const { codec, tensors } of arenas) {
    const bits = tensors.reduce((sum, tensor) => sum + expectedBits(tensor, codec.format), 0);
    elements += tensors.reduce((sum, { elementCount }) => sum + elementCount, 0);
    entries += tensors.reduce((sum, { count }) => sum + count, 0);
    payloadBytes += Math.ceil(bits / 8) + FRAME_OVERHEAD_BYTES;
  }
  const byteNs = isLocal ? LOCAL_BYTE_NS : NETWORK_BYTE_NS;
  const denseBytes = Math.ceil((2 * (worldSize - 1) * elements * 4) / worldSize);
  const sparseHops = Math.ceil((worldSize - 1) / 2);
  const sparseNs =
    entries * (ENCODE_NS + worldSize * DECODE_NS) + (worldSize - 1) * payloadBytes * byteNs + sparseHops * HOP_NS;
  const denseNs = denseBytes * byteNs + 2 * (worldSize - 1) * HOP_NS;
  // Alone nothing is sent. A ring of one rounds as larger ones do.
  const cheaper = worldSize === 1 || sparseNs <= denseNs ? 'sparse' : 'dense';
  return { cheaper, denseBytes };
}
