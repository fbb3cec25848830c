import { type EntryRoute, SAME_UPDATES, type SameUpdates } from '../../compression/dgc-options';
import { type CodedTensor, expectedBits } from '../../compression/gradient-streams';
import type { ValueFormat } from '../../compression/value-format';
import type { LinkCost } from '../link-cost';
import { gather } from './gather';
import { mixed } from './mixed';
import { ring } from './ring';
import {
  type EntryLoad,
  FRAME_OVERHEAD_BYTES,
  type Prices,
  type Route,
  type RouteCost,
  type StepLoad,
  sumOf,
} from './route';
import { scatterCost } from './scatter';

/** Those that apply the same updates. */
export const ROUTES: Readonly<Record<SameUpdates, Route>> = { sparse: gather, mixed, dense: ring };

/** Of routes that cost the same, the first is taken. */
const COSTED: Readonly<Record<EntryRoute, Pick<Route, 'cost'>>> = { ...ROUTES, scatter: { cost: scatterCost } };

/** What a step costs on a route. */
export function costOf(route: EntryRoute, load: StepLoad, prices: Prices): RouteCost | undefined {
  return COSTED[route].cost(load, prices);
}

/** The route, of those that a training allows, on which a step is expected to take the least time. */
export function chooseRoute(load: StepLoad, prices: Prices, allowed: readonly EntryRoute[] = SAME_UPDATES): EntryRoute {
  if (prices.worldSize === 1) return allowed[0]!; // nothing is sent. A ring of one rounds as larger ones do
  const timeNs = (name: EntryRoute): number => {
    const cost = costOf(name, load, prices);
    return cost === undefined ? Infinity : cost.computeNs + cost.travelNs;
  };
  return allowed.reduce((best, name) => (timeNs(name) < timeNs(best) ? name : best));
}

/** A tensor of a step, as far as all ranks know it. */
export interface CostedTensor extends CodedTensor {
  readonly isWhole: boolean;
}

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
