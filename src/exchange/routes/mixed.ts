import { algorithmFor } from '../../collectives/dense-ring';
import { sparseAllReduce } from '../../collectives/sparse-all-reduce';
import { ofPart, type Route, type StepArena } from './route';
import { encodePayloads, gatherCost } from './gather';
import { ringCost, sumByRing } from './ring';

/**
 * The tensors that are sent whole by the dense ring, the entries of the others in a sparse all-gather. Both take
 * one path: the links, or bulk with `perHost`.
 */
export const mixed: Route = {
  cost({ whole, others }, prices) {
    // A few numbers are gathered in any case.
    if (algorithmFor(prices.worldSize, 4 * whole.elements) === 'gather') return undefined;
    const gathered = gatherCost(others, prices);
    const reduced = ringCost(whole.elements, { ...prices, ringByteNs: prices.byteNs });
    const travelNs = gathered.travelNs + reduced.travelNs;
    return { ...gathered, travelNs, sentBytes: gathered.sentBytes + reduced.sentBytes };
  },
  async carry(step) {
    const { call, arenas, means, clock } = step;
    const parts = encodePayloads(step, partOf(arenas, 'others'));
    const whole = partOf(arenas, 'whole');
    const agreed = await clock.travel(() => sparseAllReduce(call, parts));
    if (agreed.nonFinite !== undefined) return agreed;
    await clock.travel(() => sumByRing(call, whole));
    clock.stage('decode', 'means', () => means.takeAll(whole));
    return agreed;
  },
};

/** The arenas of a step, with only those tensors that are always sent whole; or with the others. */
export function partOf(arenas: readonly StepArena[], part: 'whole' | 'others'): StepArena[] {
  return arenas.map(arena => ({
    ...arena,
    part,
    gradients: part === 'whole' ? arena.wholeGradients : arena.gradients,
    tensors: ofPart(arena.tensors, part),
  }));
}
