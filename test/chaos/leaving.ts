import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Communicator } from '../../src/communicator/communicator';
import type { GradringError } from '../../src/errors';
import type { ToldAgain } from './report-file';
import { report } from './rank-report';

/**
 * How the script of a rank may end. Those that stay live on beside their neighbours' ends, call once more if they had
 * failed, and close then.
 */
export const WAYS_TO_LEAVE = ['close', 'exit', 'fall off', 'stay'] as const;

export type WayToLeave = (typeof WAYS_TO_LEAVE)[number];

const POLL_MS = 20;

/** Tells those that stay that all the others have ended. */
export function release(folder: string): void {
  writeFileSync(releaseOf(folder), '');
}

/** How a rank is to end. */
export interface Leaving {
  readonly way: WayToLeave;
  readonly ring: Communicator | undefined;
  readonly hasFailed: boolean;
  readonly stayMs: number;
  /** Whether to sleep in calls. */
  readonly sync: boolean;
  /** The folder of the run. */
  readonly folder: string;
}

/** Ends the script of a rank. */
export async function leave({ way, ring, hasFailed, stayMs, sync, folder }: Leaving): Promise<void> {
  if (way === 'exit') process.exit();
  if (way === 'fall off') return;
  if (way === 'stay') {
    await sleep(stayMs);
    while (!existsSync(releaseOf(folder))) await sleep(POLL_MS);
    if (hasFailed && ring !== undefined) report({ again: await callAgain(ring, sync) });
  }
  await ring?.close();
  report({ left: true });
}

/** What a ring that has failed says when it is called once more, and after how long. */
async function callAgain(ring: Communicator, sync: boolean): Promise<ToldAgain> {
  const startedAt = performance.now();
  const told = await attempt(ring, sync);
  return { ...told, ms: performance.now() - startedAt };
}

async function attempt(ring: Communicator, sync: boolean): Promise<Omit<ToldAgain, 'ms'>> {
  try {
    if (sync) ring.barrierSync();
    else await ring.barrier();
    return {};
  } catch (error) {
    const { code, rank } = error as GradringError;
    return { code, blamed: rank };
  }
}

function releaseOf(folder: string): string {
  return path.join(folder, 'others-have-ended');
}
