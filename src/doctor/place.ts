import { unknownVariables, unknownVariableWarning } from '../environment/variables';
import { type ConnectOptions, resolveConnectOptions } from '../rendezvous/connect-options';
import type { Finding } from './finding';

const WHAT = 'Place';

/** Which rank this process would be, and who says so. */
export function placeFinding(env: NodeJS.ProcessEnv = process.env): Finding {
  let place: ConnectOptions;
  try {
    place = resolveConnectOptions({}, env, false);
  } catch (error) {
    return { what: WHAT, verdict: 'problem', words: (error as Error).message, details: {} };
  }
  const { rank, worldSize, masterAddr, masterPort, scheduler = null, overruled } = place;
  const isGiven = scheduler !== null || Boolean(env['RANK']);
  const details = { rank, worldSize, masterAddr, masterPort, scheduler };
  if (overruled !== undefined) {
    const words = `alone, say RANK and WORLD_SIZE, but ${overruled} has started several; unset them to train together`;
    return { what: WHAT, verdict: 'warning', words, details };
  }
  if (!isGiven) {
    const words = 'alone: neither a scheduler nor RANK says anything else, so a training is a ring of one';
    return { what: WHAT, verdict: 'ok', words, details };
  }
  const by = scheduler ?? 'RANK and WORLD_SIZE';
  const words = `rank ${rank} of ${worldSize}, says ${by}; the ranks meet at ${masterAddr}, port ${masterPort}`;
  return { what: WHAT, verdict: 'ok', words, details };
}

/** Variables of gradring that are probably misspelt. Undefined if there are none. */
export function variablesFinding(env: NodeJS.ProcessEnv = process.env): Finding | undefined {
  const words = unknownVariableWarning(env)?.replace(/\.$/, '');
  if (words === undefined) return undefined;
  return { what: 'Variables', verdict: 'warning', words, details: { unknown: unknownVariables(env) } };
}
