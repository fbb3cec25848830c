import { isCount, isListOf, isNumber, isOrNull, isWith } from '../shape';
import { tf } from './tfjs';

/** What one of tfjs's callbacks for early stopping has counted. */
export interface EarlyStop {
  /** For how many epochs the metric has not become better. */
  readonly wait: number;
  /** The best value so far. Null: there is none. */
  readonly best: number | null;
}

export const areEarlyStops = isListOf(isWith<EarlyStop>({ wait: isCount, best: isOrNull(isNumber) }));

/** The fields of tfjs's class that count. */
interface Counters {
  wait: number;
  best: number;
}

function countersIn(callbacks: readonly unknown[]): Counters[] {
  return callbacks.filter(callback => callback instanceof tf.EarlyStopping) as unknown as Counters[];
}

/** What those among a training's callbacks have counted, in their order. */
export function earlyStopsIn(callbacks: readonly unknown[]): EarlyStop[] {
  return countersIn(callbacks).map(({ wait, best }) => ({ wait, best: Number.isFinite(best) ? best : null }));
}

/** Gives them back what they had counted. They have begun a training, at which they begin anew. */
export function restoreEarlyStops(callbacks: readonly unknown[], saved: readonly EarlyStop[]): void {
  for (const [i, counters] of countersIn(callbacks).entries()) {
    const { wait, best } = saved[i] ?? {};
    if (wait !== undefined) counters.wait = wait;
    if (best != null) counters.best = best;
  }
}
