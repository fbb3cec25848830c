import { setTimeout as sleep } from 'node:timers/promises';
import { GradringError } from '../errors';
import type { Transport } from '../transport/transport';
import { Operation } from '../wire/frame';

/** How often the others are asked. */
const ASK_MS = 250;

/** How often it is looked whether they have answered. */
const LOOK_MS = 10;

/**
 * Waits until all other ranks have done a collective that this one has done. It may be done first by a moment; if it left then, and another were lost,
 * nobody might be left of whom those who are not done could get the result.
 *
 * What a rank has done stays done, so that any answer of this ring counts. Who asks tells what it has done itself, and what one rank has heard has gone on
 * from it to the next: if it leaves by then, its neighbours know all that it knew.
 *
 * @param timeoutMs Then it is given up.
 * @throws GradringError What the ring has failed with: `ERR_PEER_LOST` also if a rank has left before it was known.
 */
export async function untilAllHaveDone(transport: Transport, sequence: number, timeoutMs: number): Promise<void> {
  const { rank: own, worldSize } = transport;
  const begunAt = performance.now();
  let askedAt = begunAt;
  transport.ask('answers');
  while (performance.now() - begunAt < timeoutMs) {
    const answers = transport.answers(0);
    const missing = Array.from({ length: worldSize }, (_, rank) => rank).find(rank => {
      const state = answers.get(rank);
      const isDone =
        state !== undefined &&
        (state.sequence > sequence || (state.sequence === sequence && !state.isCalling)) &&
        state.call.operation !== Operation.None;
      return rank !== own && !isDone;
    });
    if (missing === undefined) return;
    const isDue = performance.now() - askedAt >= ASK_MS;
    // If somebody has left without waiting for that, those who are still there compare in the next ring.
    const isHopeless = isDue && !transport.isWhole;
    if (transport.failed || isHopeless) throw await transport.fail(leftUnsettled(missing));
    if (isDue) {
      transport.ask('answers');
      askedAt = performance.now();
    }
    await sleep(LOOK_MS);
  }
}

function leftUnsettled(rank: number): GradringError {
  const words = `A rank has left the ring before it was known whether rank ${rank} has done all that the others have.`;
  return new GradringError('ERR_PEER_LOST', words, { rank });
}
