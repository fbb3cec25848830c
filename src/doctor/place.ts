import { type RankEnvironment, readRankEnvironment } from '../environment/rank-environment';
import type { Finding } from './finding';

const WHAT = 'Place';

/** Which rank this process would be, and who says so. */
export function placeFinding(env: NodeJS.ProcessEnv = process.env): Finding {
  let place: RankEnvironment;
  try {
    place = readRankEnvironment(env);
  } catch (error) {
    return { what: WHAT, verdict: 'problem', words: (error as Error).message, details: {} };
  }
  const { rank, worldSize, masterAddr, masterPort, scheduler = null, iface, portRange, advertiseAddr } = place;
  const isGiven = scheduler !== null || Boolean(env['RANK']);
  const details = { rank, worldSize, masterAddr, masterPort, scheduler, iface, portRange, advertiseAddr };
  if (!isGiven) {
    const words = 'alone: neither a scheduler nor RANK says anything else, so a training is a ring of one';
    return { what: WHAT, verdict: 'ok', words, details };
  }
  const by = scheduler ?? 'RANK and WORLD_SIZE';
  const words = `rank ${rank} of ${worldSize}, says ${by}; the ranks meet at ${masterAddr}, port ${masterPort}`;
  return { what: WHAT, verdict: 'ok', words, details };
}
