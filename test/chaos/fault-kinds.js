// What may happen to a run, and what is promised then. Times of a fault are in ms.

/** Ranks' silence after which their neighbours give them up, in ms, and how much of it may pass at most: docs/reliability.md. */
const HEARTBEAT_MS = 2_000;
const HEARTBEAT_FACTOR = 1.5;

/** A collective's deadline, in ms. */
const DEADLINE_MS = 6_000;

/** What a loss takes to travel round and be told: last words, and closing after it. */
const TELLING_MS = 1_000;

const SILENCE_MS = HEARTBEAT_FACTOR * HEARTBEAT_MS + TELLING_MS;

/**
 * @typedef {object} FaultKind
 * @property {number} weight How often it is drawn.
 * @property {'success' | 'loss' | 'either' | 'end'} outcome What the ranks that it does not strike come to: all steps; a coded
 *   error (or all steps, where they had all they need); one or the other, on all ranks alike or not; or their end by the launcher.
 * @property {number} [toldWithinMs] How long the survivors of a loss may take.
 * @property {string[]} [codes] What the error may be.
 * @property {boolean} [blames] Whether the error must name a struck rank.
 * @property {number} [ranks] How many it strikes. Default 1.
 * @property {'struck'} [ends] The ranks that it strikes end, each in the fault's own way.
 * @property {[number, number]} [forMs] How long it lasts.
 * @property {true} [byRank] The rank does it to itself.
 * @property {true} [early] It may come while the ranks start and meet, too.
 * @property {'may' | 'must'} [launcher] Whether the ranks may be started by `gradring run`.
 * @property {true} [link] It strikes the link from the rank's left neighbour, which goes through a proxy.
 */

const LOST = { outcome: 'loss', codes: ['ERR_PEER_LOST'], blames: true, toldWithinMs: TELLING_MS };
const SILENT = { ...LOST, toldWithinMs: SILENCE_MS };
const DEATH = { ...LOST, ends: 'struck', early: true, launcher: 'may' };

/** By name. @type {Record<string, FaultKind>} */
const FAULT_KINDS = {
  nothing: { weight: 4, outcome: 'success', ranks: 0, launcher: 'may' },
  kill: { weight: 18, ...DEATH },
  'kill two': { weight: 10, ...DEATH, ranks: 2 },
  'exit 0': { weight: 5, ...DEATH, byRank: true },
  'exit 3': { weight: 5, ...DEATH, byRank: true },
  throw: { weight: 5, ...DEATH, byRank: true },
  restart: { weight: 8, ...DEATH, launcher: undefined, forMs: [0, 600] },
  stop: { weight: 8, ...SILENT, ends: 'struck', launcher: 'may' },
  // It finds its neighbours gone, and cannot know that it was itself that was silent.
  'stop for long': { weight: 5, ...SILENT, forMs: [SILENCE_MS + 500, SILENCE_MS + 2_000] },
  'stop briefly': { weight: 6, outcome: 'success', forMs: [10, HEARTBEAT_MS / 4] },
  busy: { weight: 6, outcome: 'success', forMs: [10, 1.5 * HEARTBEAT_MS], byRank: true },
  'busy past the deadline': {
    ...{ weight: 3, outcome: 'loss', codes: ['ERR_TIMEOUT'], toldWithinMs: DEADLINE_MS + TELLING_MS },
    ...{ forMs: [DEADLINE_MS + 1_000, DEADLINE_MS + 2_000], byRank: true },
  },
  'reset link': { weight: 6, ...LOST, link: true },
  'close link': { weight: 4, ...LOST, link: true },
  'cut link': { weight: 6, ...SILENT, link: true },
  'slow link': { weight: 5, outcome: 'success', forMs: [10, HEARTBEAT_MS / 4], link: true },
  twin: { weight: 6, outcome: 'success' },
  'kill launcher': { weight: 4, outcome: 'end', ranks: 0, toldWithinMs: TELLING_MS, early: true, launcher: 'must' },
  'end launcher': { weight: 4, outcome: 'end', ranks: 0, toldWithinMs: 2_000, early: true, launcher: 'must' },
};

/** Those that leave the others alone, so that they may come with another. */
const HARMLESS = ['stop briefly', 'busy'];

module.exports = { DEADLINE_MS, FAULT_KINDS, HARMLESS, HEARTBEAT_MS };
