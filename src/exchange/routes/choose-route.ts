import type { EntryRoute } from '../../compression/dgc-options';
import { type CodedTensor, expectedBits } from '../../compression/gradient-streams';
import type { ValueFormat } from '../../compression/value-format';
import type { LinkCost } from '../link-cost';
import { gather } from './gather';
import { mixed } from './mixed';
import { ring } from './ring';
import { type EntryLoad, type Prices, type Route, type StepLoad, sumOf } from './route';

/** Those on which the entries of any tensors may travel. Of routes that cost the same, the first is taken. */
export const ROUTES: Readonly<Record<ChosenRoute, Route>> = { sparse: gather, mixed, dense: ring };

/** `scatter` is taken only if it is asked for, as it applies other updates. */
export type ChosenRoute = Exclude<EntryRoute, 'scatter'>;

/** The route on which a step is expected to take the least time. */
export function chooseRoute(load: StepLoad, prices: Prices): ChosenRoute {
  const names = Object.keys(ROUTES) as ChosenRoute[];
  if (prices.worldSize === 1) return names[0]!; // nothing is sent. A ring of one rounds as larger ones do
  const timeNs = (name: ChosenRoute): number => {
    const cost = ROUTES[name].cost(load, prices);
    return cost === undefined ? Infinity : cost.computeNs + cost.travelNs;
  };
  return names.reduce((best, name) => (timeNs(name) < timeNs(best) ? name : best));
}

/** A tensor of a step, as far as all ranks know it. */
export interface CostedTensor extends CodedTensor {
  readonly isWhole: boolean;
}

/** About the size of a frame header and a payload table. */
const FRAME_OVERHEAD_BYTES = 160;

/** The load of a step, by the expected sizes of the streams. */
export function expectedLoad(tensors: readonly CostedTensor[], format: ValueFormat, arenaCount = 1): StepLoad {
  const loadOf = (part: readonly CostedTensor[], extraBytes: number): EntryLoad => ({
    elements: sumOf(part, ({ elementCount }) => elementCount),
    entries: sumOf(part, ({ count }) => count),
    payloadBytes: Math.ceil(sumOf(part, tensor => expectedBits(tensor, format)) / 8) + extraBytes,
  });
  return {
    whole: loadOf(
      tensors.filter(({ isWhole }) => isWhole),
      0,
    ),
    others: loadOf(
      tensors.filter(({ isWhole }) => !isWhole),
      arenaCount * FRAME_OVERHEAD_BYTES,
    ),
  };
}

/** How long it takes to encode and to decode an entry, in ns, as measured (docs/performance.md). */
const ENTRY_PRICES = { encodeNs: 6, decodeNs: 9 } as const;

/** What a training pays on links of that cost. */
export function pricesOf(worldSize: number, { byteNs, hopNs }: LinkCost): Prices {
  return { worldSize, senders: worldSize, ...ENTRY_PRICES, byteNs, ringByteNs: byteNs, relayNs: 0, hopNs };
}
