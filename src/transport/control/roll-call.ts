import { type CallFingerprint, FrameKind, type StatusHeader } from '../../wire/frame';
import type { RankStatus } from '../../wire/rank-status';
import { opposite, type Side, SIDES } from '../ring-place';

/** What a rank is doing. */
export interface RankState extends Omit<RankStatus, 'round' | 'asks'> {
  /** The collective under way, or the last. Its operation is `None` if there was none yet. */
  readonly call: CallFingerprint;
  /** Its number. */
  readonly sequence: number;
}

/** The shortest time between two answers of a rank, in ms, however often it is asked. */
const ANSWER_MS = 200;

/**
 * Finds out what the other ranks are doing. The comm thread of a rank answers by itself, even if the main thread is
 * busy. Questions and answers go both ways round the ring, and each rank forwards each of them once. So they get to
 * every rank that can be reached.
 */
export class RollCall {
  /** The last status of each other rank, and when it arrived. */
  private readonly heard = new Map<number, { status: StatusHeader; at: number }>();
  /** How many statuses each link has not taken yet. */
  private readonly waiting = { left: 0, right: 0 };
  private round = 0;
  private answeredAt = -Infinity;
  private answer: NodeJS.Timeout | undefined;
  private describe: (() => RankState) | undefined;
  private onAsked: (() => void) | undefined;

  constructor(
    private readonly ring: { readonly rank: number; readonly worldSize: number },
    /** Sends a status to the neighbour on that side. Settles when the link has taken it. */
    private readonly send: (side: Side, status: StatusHeader) => Promise<void>,
  ) {}

  /** From now on this rank answers. `onAsked` is called when another rank asks for a report. */
  attend(describe: () => RankState, onAsked: () => void): void {
    this.describe = describe;
    this.onAsked = onAsked;
  }

  /** Tells the others what this rank is doing, and asks them for the same; with `report`, to let the user know, too. */
  ask(what: StatusHeader['asks']): void {
    clearTimeout(this.answer);
    this.answer = undefined;
    if (this.describe === undefined) return;
    const { call, ...state } = this.describe();
    const own = { kind: FrameKind.Status, origin: this.ring.rank, round: ++this.round, asks: what } as const;
    this.answeredAt = performance.now();
    for (const side of SIDES) this.pass(side, { ...call, ...state, ...own });
  }

  /** The statuses that have arrived since that time (of `performance.now()`), by rank. */
  answers(since: number): Map<number, RankState> {
    const now = performance.now();
    const fresh = [...this.heard].filter(([, { at }]) => at >= since);
    return new Map(
      fresh.map(([rank, { status, at }]) => {
        const { isCalling, sequence, step, settings, sinceMs } = status;
        return [rank, { call: status, isCalling, sequence, step, settings, sinceMs: sinceMs + now - at }];
      }),
    );
  }

  /** A status has arrived from that side. */
  hear(side: Side, status: StatusHeader): void {
    const { origin } = status;
    if (origin === this.ring.rank || status.round <= (this.heard.get(origin)?.status.round ?? 0)) return;
    this.heard.set(origin, { status, at: performance.now() });
    this.pass(opposite(side), status);
    if (status.asks === 'nothing') return;
    const wait = this.answeredAt + ANSWER_MS - performance.now();
    this.answer ??= setTimeout(() => this.ask('nothing'), Math.max(0, wait));
    if (status.asks === 'report') this.onAsked?.();
  }

  /** From now on this rank answers no more. */
  close(): void {
    clearTimeout(this.answer);
    this.describe = undefined;
    this.onAsked = undefined;
  }

  private pass(side: Side, status: StatusHeader): void {
    if (this.waiting[side] > 2 * this.ring.worldSize) return; // the neighbour does not read
    this.waiting[side] += 1;
    void this.send(side, status).finally(() => (this.waiting[side] -= 1));
  }
}
