import { setTimeout as sleep } from 'node:timers/promises';
import type { Transport } from '../transport/transport';
import { wakingNow } from '../waking-time';
import { hasDone } from './absent-ranks';

/** How often the others are asked. */
const ASK_MS = 250;

/** How often this rank checks whether they have answered. */
const LOOK_MS = 10;

/**
 * Waits until all other ranks have done a collective that this one has done. This rank may be done a moment before the
 * others. If it left then, and another rank were lost, perhaps no rank would be left that has the result.
 *
 * What a rank has done stays done, so any answer of this ring counts. A rank that asks also tells what it has done
 * itself, and each rank passes on what it hears, before its goodbye and on the same links. So if a rank leaves
 * meanwhile, its neighbours know all that it knew.
 *
 * @param timeoutMs It gives up after this time.
 * @throws GradringError What the ring has failed with: `ERR_PEER_LOST` also if a neighbour leaves before it is known.
 */
export async function awaitOthers(transport: Transport, sequence: number, timeoutMs: number): Promise<void> {
  const { rank: own, worldSize } = transport;
  const others = Array.from({ length: worldSize }, (_, rank) => rank).filter(rank => rank !== own);
  const begunAt = wakingNow();
  let askedAt = performance.now();
  transport.rollCall.ask('answers');
  while (wakingNow() - begunAt < timeoutMs) {
    const answers = transport.rollCall.answers(0);
    if (others.every(rank => hasDone(answers.get(rank), sequence))) return;
    const isDue = performance.now() - askedAt >= ASK_MS;
    // If a neighbour is gone, answers may not get round the ring. Then the remaining ranks compare in the next ring.
    await transport.check({ whole: isDue });
    if (isDue) {
      transport.rollCall.ask('answers');
      askedAt = performance.now();
    }
    await sleep(LOOK_MS);
  }
}
