import { FAULT_KINDS } from './fault-kinds';
import type { Plan } from './plan';

/** How long a process that was started with the rank of another waits for the others, in ms. */
export const CONNECT_LATE_MS = 1_500;

/** How long the ranks of a plan wait for each other, in ms: less where they may wait in vain. */
export function connectMs({ faults }: Plan): number {
  return faults.some(({ at }) => 'startMs' in at) ? 5_000 : 20_000;
}

/** After so much more time a rank that finds no rank 0 gives up. */
const NO_ANSWER_MS = 2_000;

/** The launcher's patience with those that a failure leaves, and then with those that do not heed it. */
const LAUNCHER_MS = 3_000 + 1_000;

/** A run in which nothing goes wrong takes much less. */
export const RUN_MS = 90_000;

/**
 * What a machine with much to do may add; where it has too much, as often again as it took for the ranks to start and
 * meet.
 */
export const SLACK_MS = 6_000;
const SLOWNESS_FACTOR = 2;

/**
 * How long after the loss all processes must have ended by themselves, in ms; or if the ring did not stand, after all
 * that were not struck had begun to look for the others.
 *
 * @param formedMs How long the ranks took to start and meet; undefined if they had not when the
 *   fault came.
 */
export function allowedMs(plan: Plan, formedMs: number | undefined): number {
  const { faults, heartbeatMs, launcher } = plan;
  const told = Math.max(...faults.map(({ kind }) => FAULT_KINDS[kind].toldWithinMs?.(heartbeatMs) ?? 0));
  const lasting = faults.reduce((sum, { forMs }) => sum + forMs, 0);
  const late = faults.some(({ kind }) => kind === 'restart') ? CONNECT_LATE_MS + NO_ANSWER_MS : 0;
  const meeting = formedMs === undefined ? connectMs(plan) + NO_ANSWER_MS : SLOWNESS_FACTOR * formedMs;
  return told + lasting + late + meeting + (launcher ? LAUNCHER_MS : 0) + SLACK_MS;
}

/**
 * What comes at once, and without anybody else, takes at most so long; and as much longer as this machine did not get
 * to anything.
 */
export const AT_ONCE_MS = 1_000;
