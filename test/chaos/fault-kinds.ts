// What may happen to a run, and what is promised then. Times of a fault are in ms.

/** What a loss takes to travel round and be told: last words, and the agreement on what all raise. */
const TELLING_MS = 250 + 1_000;

/** How long after a rank has fallen silent its loss may be told. */
const silenceMs = (heartbeatMs: number) => 1.25 * heartbeatMs + TELLING_MS;

/** A collective's deadline, past all that may keep the ranks waiting for a silent one. */
export const deadlineMs = (heartbeatMs: number) => 3 * heartbeatMs + 1_000;

/** A kind of fault, and what is promised of a run that it strikes. */
export interface FaultKind {
  /** How often it is drawn. */
  readonly weight: number;
  /**
   * What the ranks that it does not strike come to: all steps; a coded error (or all steps, if they had all they
   * needed); one or the other, on all ranks alike or not; or their end by the launcher.
   */
  readonly outcome: 'success' | 'loss' | 'either' | 'end';
  /** How long the survivors of a loss may take to report it. */
  readonly toldWithinMs?: (heartbeatMs: number) => number;
  /** What the error may be. */
  readonly codes?: readonly string[];
  /** What the error must say, too, of the rank that it names. */
  readonly words?: (rank: number | undefined) => string;
  /** How many ranks it strikes. Default: 1. */
  readonly ranks?: number;
  /** The ranks that it strikes end, each in the fault's own way. */
  readonly ends?: 'struck';
  /** How long it lasts, from and to. */
  readonly forMs?: (heartbeatMs: number) => [least: number, most: number];
  /** The rank does it to itself. */
  readonly byRank?: true;
  /** It may come while the ranks start and meet, too. */
  readonly early?: true;
  /** Whether the ranks may be started by `gradring run`. */
  readonly launcher?: 'may' | 'must' | undefined;
  /** It strikes the link from the rank's left neighbour, which goes through a proxy. */
  readonly link?: true;
}

const LOST: Omit<FaultKind, 'weight'> = { outcome: 'loss', codes: ['ERR_PEER_LOST'], toldWithinMs: () => TELLING_MS };
const SILENT: Omit<FaultKind, 'weight'> = { ...LOST, toldWithinMs: silenceMs };
const DEATH: Omit<FaultKind, 'weight'> = { ...LOST, ends: 'struck', early: true, launcher: 'may' };
const BROKEN_LINK: Omit<FaultKind, 'weight'> = { ...LOST, link: true, words: () => 'The link between' };

/** So short that nothing comes of it. */
const MOMENT = (): [number, number] => [10, 500];

const KINDS = {
  nothing: { weight: 4, outcome: 'success', ranks: 0, launcher: 'may' },
  kill: { weight: 18, ...DEATH },
  'kill two': { weight: 10, ...DEATH, ranks: 2 },
  'exit 0': { weight: 5, ...DEATH, byRank: true },
  'exit 3': { weight: 5, ...DEATH, byRank: true },
  throw: { weight: 5, ...DEATH, byRank: true },
  restart: { weight: 8, ...DEATH, launcher: undefined, forMs: () => [0, 600] },
  stop: { weight: 8, ...SILENT, ends: 'struck', launcher: 'may' },
  // It finds its neighbours gone, and cannot know that it was itself that was silent.
  'stop for long': {
    ...{ weight: 5, ...SILENT },
    forMs: heartbeatMs => [silenceMs(heartbeatMs) + 500, silenceMs(heartbeatMs) + 2_000],
  },
  'stop briefly': { weight: 6, outcome: 'success', forMs: MOMENT },
  // Longer than a rank may be silent; shorter than the deadline.
  busy: { weight: 6, outcome: 'success', forMs: heartbeatMs => [10, 1.5 * heartbeatMs], byRank: true },
  'busy past the deadline': {
    ...{ weight: 3, outcome: 'loss', codes: ['ERR_TIMEOUT'], byRank: true },
    words: rank => `rank ${rank} has not called it`,
    toldWithinMs: heartbeatMs => deadlineMs(heartbeatMs) + TELLING_MS,
    forMs: heartbeatMs => [deadlineMs(heartbeatMs) + 1_000, deadlineMs(heartbeatMs) + 2_000],
  },
  'reset link': { weight: 6, ...BROKEN_LINK },
  'close link': { weight: 4, ...BROKEN_LINK },
  'cut link': { weight: 6, ...BROKEN_LINK, toldWithinMs: silenceMs },
  'slow link': { weight: 5, outcome: 'success', forMs: MOMENT, link: true },
  twin: { weight: 6, outcome: 'success' },
  'kill launcher': {
    weight: 4,
    outcome: 'end',
    ranks: 0,
    toldWithinMs: () => TELLING_MS,
    early: true,
    launcher: 'must',
  },
  // Losses that an elastic run survives: elastic-plan.js.
  elastic: { weight: 22, outcome: 'success', ranks: 0, launcher: 'must' },
  'end launcher': { weight: 4, outcome: 'end', ranks: 0, toldWithinMs: () => 2_000, early: true, launcher: 'must' },
} satisfies Record<string, FaultKind>;

export type FaultName = keyof typeof KINDS;

/** By name. */
export const FAULT_KINDS: Readonly<Record<FaultName, FaultKind>> = KINDS;

/** Those that leave the others alone, so that they may come with another. */
export const HARMLESS: readonly FaultName[] = ['stop briefly', 'busy'];
