import { type Communicator, Purpose } from '../communicator/communicator';
import type { ExchangeHandle } from '../exchange/exchange-handle';

/** A step that some ranks have done, and for others failed. */
export interface SharedStep {
  readonly communicator: Communicator;
  readonly exchange: ExchangeHandle;
  /** By variable: whether its momentum is that of the average, the same on all ranks. */
  readonly sharesMomentum: readonly boolean[];
  /** What a rank that has done it applied. */
  readonly lastUpdates: readonly Float32Array[];
  /** One that has done it. */
  readonly root: number;
  readonly isBehind: boolean;
  /** Whether anything was applied. */
  readonly isApplied: boolean;
}

/**
 * Gives those who are behind the update and the momenta that all have in common, by collectives of all ranks, asleep.
 * They then have the update where the exchange would have left it, and their own residuals as if it had not failed:
 * what they had selected was part of the sum.
 */
export function shareStep(step: SharedStep): void {
  const { communicator, exchange, sharesMomentum, lastUpdates, root, isBehind, isApplied } = step;
  const momenta = sharesMomentum.map((isShared, i) => {
    if (isApplied)
      communicator.broadcastSync(isBehind ? exchange.gradient(i) : lastUpdates[i]!, { root, purpose: Purpose.Reunite });
    return isShared
      ? communicator.broadcastSync(exchange.momentum(i).slice(), { root, purpose: Purpose.Reunite })
      : undefined;
  });
  // Only now: if this fails half-way, the step may have to be run again by those who are behind.
  if (!isBehind) return;
  momenta.forEach((momentum, i) => momentum && exchange.momentum(i).set(momentum));
  exchange.conclude(isApplied);
}
