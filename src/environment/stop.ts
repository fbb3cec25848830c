/**
 * The exit code of a rank that was told to stop, after all ranks have saved: EX_TEMPFAIL of sysexits.h, "try again
 * later". So a job manager can tell it from a training that is over, and from one that failed.
 */
export const STOPPED_EXIT_CODE = 75;

const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000 } as const;

/** The ms of a time such as `55m`. Undefined if it is not one. */
export function stopAfterMs(text: string): number | undefined {
  const [, count, unit] = /^(\d+(?:\.\d+)?)([smh])$/.exec(text) ?? [];
  const ms = Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
  return ms > 0 ? ms : undefined;
}
