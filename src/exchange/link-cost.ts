import { allGatherBodies } from '../collectives/all-gather';
import { blaming } from '../collectives/blaming';
import type { CollectiveCall } from '../collectives/collective-call';
import { isNumber, isWith } from '../shape';
import { protocolError } from '../wire/frame';

/** What the links between the ranks cost, in ns: the same on all ranks. */
export interface LinkCost {
  readonly byteNs: number;
  readonly hopNs: number;
}

export const isLinkCost = isWith<LinkCost>({ byteNs: isNumber, hopNs: isNumber });

/**
 * Within a host, as measured (docs/performance.md), and not anew: a training on one host is to be repeatable.
 *
 * @param paceNs What the pace of the links adds to each byte.
 */
export function localLinks(paceNs = 0): LinkCost {
  return { byteNs: 1.5 + paceNs, hopNs: 300_000 };
}

/** A network is not taken for a faster one: then a step would depend on noise. */
const FASTEST: LinkCost = { byteNs: 1, hopNs: 131_072 };

/** What neighbours send each other: little first, and more only if that took less time than a measurement should. */
const PROBE_BYTES = 64 * 1024;
const LARGE_PROBE_BYTES = 1024 * 1024;
const LONG_MS = 5;
const ROUNDS = 3;
/** No ring waits that long for a frame. */
const LONGEST_MS = 3_600_000;

/**
 * Measures the links of the ring. Each rank sends to its right neighbour; the slowest link counts. The figures are
 * rounded up to powers of two, so that two measurements of one network mostly agree.
 */
export async function measureLinks(call: CollectiveCall): Promise<LinkCost> {
  const hopMs = await slowest(call, await timeOf(call, 1));
  let bytes = PROBE_BYTES;
  let probeMs = await slowest(call, await timeOf(call, bytes));
  if (probeMs - hopMs < LONG_MS) {
    bytes = LARGE_PROBE_BYTES;
    probeMs = await slowest(call, await timeOf(call, bytes));
  }
  return roundedLinks({ byteNs: ((probeMs - hopMs) * 1e6) / bytes, hopNs: hopMs * 1e6 });
}

/** The cost of links, rounded as in a training. */
export function roundedLinks({ byteNs, hopNs }: LinkCost): LinkCost {
  return { byteNs: powerOfTwo(byteNs, FASTEST.byteNs), hopNs: powerOfTwo(hopNs, FASTEST.hopNs) };
}

/** How long a frame of that size takes from the left neighbour: the least of some rounds, in ms. */
async function timeOf(call: CollectiveCall, bytes: number): Promise<number> {
  const body = new Uint8Array(bytes);
  let least = Infinity;
  for (let part = 0; part < ROUNDS; part++) {
    await allGatherBodies(call, new Uint8Array(0)); // all begin together
    const start = performance.now();
    await Promise.all([call.send(part, body), call.receive(call.leftBy(1), part)]);
    least = Math.min(least, performance.now() - start);
  }
  return least;
}

async function slowest(call: CollectiveCall, ms: number): Promise<number> {
  const own = new Uint8Array(8);
  new DataView(own.buffer).setFloat64(0, ms);
  const all = (await allGatherBodies(call, own)).map((body, rank) => blaming(rank, () => timeIn(body)));
  return Math.max(...all);
}

function timeIn(body: Uint8Array): number {
  const ms = body.length === 8 ? new DataView(body.buffer, body.byteOffset, 8).getFloat64(0) : NaN;
  if (!(ms >= 0 && ms <= LONGEST_MS)) throw protocolError('holds no time of a link');
  return ms;
}

function powerOfTwo(value: number, least: number): number {
  let power = least;
  while (power < value) power *= 2;
  return power;
}
