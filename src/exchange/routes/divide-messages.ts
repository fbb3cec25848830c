import { gatherCost } from './gather';
import { ringCost } from './ring';
import { type Prices, sumOf } from './route';

/** What a rank is expected to send of a tensor. */
export interface TensorMessage {
  readonly bits: number;
  /** Of the tensor. */
  readonly elements: number;
}

/**
 * Divides the tensors of a step into those whose messages are gathered, and those that the dense ring averages as they
 * are, so that their travel takes the least time. Messages with more bits for an element go to the ring first.
 */
export function divideMessages<T extends TensorMessage>(
  messages: readonly T[],
  prices: Prices,
): { readonly gathered: readonly T[]; readonly dense: readonly T[] } {
  const ranked = [...messages].sort((one, other) => bitsPerElement(other) - bitsPerElement(one));
  let payloadBytes = sumOf(ranked, ({ bits }) => bits) / 8;
  let elements = 0;
  const timeNs = (denseCount: number): number => {
    const gathered =
      denseCount === ranked.length ? 0 : gatherCost({ elements: 0, entries: 0, payloadBytes }, prices).travelNs;
    return gathered + ringCost(elements, prices).travelNs;
  };
  let best = { denseCount: 0, ns: timeNs(0) };
  for (const [i, message] of ranked.entries()) {
    payloadBytes -= message.bits / 8;
    elements += message.elements;
    const ns = timeNs(i + 1);
    if (ns < best.ns) best = { denseCount: i + 1, ns };
  }
  return { gathered: ranked.slice(best.denseCount), dense: ranked.slice(0, best.denseCount) };
}

function bitsPerElement({ bits, elements }: TensorMessage): number {
  return bits / Math.max(1, elements);
}
