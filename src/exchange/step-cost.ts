import { algorithmFor } from '../collectives/dense-ring';
import { expectedBits } from '../compression/expected-size';
import type { CodedTensor } from '../compression/gradient-streams';
import type { ValueFormat } from '../compression/value-format';
import type { LinkCost } from './link-cost';
import type { Travel } from './messages';

/** A tensor of a step, as far as all ranks know it. */
export interface CostedTensor extends CodedTensor {
  /** Whether it is sent whole. */
  readonly dense: boolean;
}

/** The entries of a step in one arena. */
interface CostedArena {
  readonly codec: { readonly format: ValueFormat };
  readonly tensors: readonly CostedTensor[];
}

/** What a step costs each rank. */
export interface StepCost {
  /** How the entries are expected to travel in less time. */
  readonly cheapest: Exclude<Travel, 'custom'>;
  /** Bytes that a rank would send for a dense ring all-reduce. */
  readonly denseBytes: number;
}

/** About the size of a frame header and a payload table, for each arena. */
const FRAME_OVERHEAD_BYTES = 160;

/** How long it takes to encode and to decode an entry, in ns, as measured (docs/performance.md). */
const ENCODE_NS = 6;
const DECODE_NS = 9;

/**
 * Estimates what a step costs. In a sparse all-gather a rank sends N − 1 payloads, encodes its own and decodes all N;
 * on the dense ring it sends 2(N − 1)/N of the array. A mixed step takes the dense ring for the tensors that are sent
 * whole, and the all-gather for the others. The estimate depends only on what all ranks know, so that all make the same
 * choice.
 */
export function costOf(arenas: readonly CostedArena[], worldSize: number, links: LinkCost): StepCost {
  const total = { elements: 0, sparseNs: 0, mixedNs: 0 };
  let isMixed = false;
  for (const { codec, tensors } of arenas) {
    const whole = tensors.filter(({ dense }) => dense);
    const wholeElements = elementsOf(whole);
    const gathersWhole = algorithmFor(worldSize, 4 * wholeElements) === 'gather';
    const allNs = gatherNs(tensors, codec.format);
    total.elements += elementsOf(tensors);
    total.sparseNs += allNs;
    if (whole.length === 0 || gathersWhole) total.mixedNs += allNs;
    else {
      isMixed = true;
      const others = tensors.filter(({ dense }) => !dense);
      total.mixedNs += gatherNs(others, codec.format) + ringNs(wholeElements);
    }
  }
  const sparseHopsNs = Math.ceil((worldSize - 1) / 2) * links.hopNs;
  const ways = [
    // Alone nothing is sent. A ring of one rounds as larger ones do.
    { travel: 'sparse', ns: worldSize === 1 ? 0 : total.sparseNs + sparseHopsNs },
    { travel: 'mixed', ns: isMixed ? total.mixedNs + sparseHopsNs : Infinity },
    { travel: 'dense', ns: ringNs(total.elements) },
  ] as const;
  const { travel } = ways.reduce((best, way) => (way.ns < best.ns ? way : best));
  return { cheapest: travel, denseBytes: Math.ceil(ringBytes(total.elements)) };

  function gatherNs(gathered: readonly CodedTensor[], format: ValueFormat): number {
    const bits = gathered.reduce((sum, tensor) => sum + expectedBits(tensor, format), 0);
    const entries = gathered.reduce((sum, { count }) => sum + count, 0);
    const payloadBytes = Math.ceil(bits / 8) + FRAME_OVERHEAD_BYTES;
    return entries * (ENCODE_NS + worldSize * DECODE_NS) + (worldSize - 1) * payloadBytes * links.byteNs;
  }

  function ringNs(elements: number): number {
    return ringBytes(elements) * links.byteNs + 2 * (worldSize - 1) * links.hopNs;
  }

  function ringBytes(elements: number): number {
    return (2 * (worldSize - 1) * elements * 4) / worldSize;
  }
}

function elementsOf(tensors: readonly CodedTensor[]): number {
  return tensors.reduce((sum, { elementCount }) => sum + elementCount, 0);
}
