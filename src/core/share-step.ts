import { type Communicator, Purpose } from '../communicator/communicator';
import type { ExchangeHandle } from '../exchange/exchange-handle';

/** A step that some ranks have done, and that failed on others. */
export interface SharedStep {
  readonly communicator: Communicator;
  readonly exchange: ExchangeHandle;
  /** By variable: whether its momentum is that of the average, the same on all ranks. */
  readonly sharesMomentum: readonly boolean[];
  /** What this rank has applied, if it has done the step. */
  readonly lastUpdates: readonly Float32Array[];
  /** A rank that has done it. */
  readonly root: number;
  readonly isBehind: boolean;
  /** Whether anything was applied. */
  readonly isApplied: boolean;
}

/**
 * Gives ranks that are behind the update, and the state that all ranks share, by synchronous collectives of all ranks.
 * Then they have the update where the exchange would have left it. Their own residuals are as if the step had not
 * failed: what they had selected was part of the sum.
 */
export function shareStep(step: SharedStep): void {
  const { communicator, exchange, sharesMomentum, lastUpdates, root, isBehind, isApplied } = step;
  const states = sharesMomentum.map((isShared, i) => {
    if (isApplied)
      communicator.broadcastSync(isBehind ? exchange.gradient(i) : lastUpdates[i]!, { root, purpose: Purpose.Reunite });
    const broadcast = (state: Float32Array) =>
      communicator.broadcastSync(state.slice(), { root, purpose: Purpose.Reunite });
    const momentum = isShared ? broadcast(exchange.momentum(i)) : undefined;
    const shared = exchange.shared(i).length > 0 ? broadcast(exchange.shared(i)) : undefined;
    return { momentum, shared };
  });
  // Only now: if a broadcast fails, ranks that are behind may have to run the step again.
  if (!isBehind) return;
  states.forEach(({ momentum, shared }, i) => {
    if (momentum !== undefined) exchange.momentum(i).set(momentum);
    if (shared !== undefined) exchange.shared(i).set(shared);
  });
  exchange.conclude(isApplied);
}
