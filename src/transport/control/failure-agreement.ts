import { deserializeError, type GradringError, type SerializedError } from '../../errors';
import { opposite, type Side, SIDES } from '../ring-place';

/** How long to wait for the findings of other ranks if no message can show that all are known. */
const SETTLE_MS = 1_000;

/** What a {@link FailureAgreement} needs of its ring. */
export interface AgreementRing {
  readonly rank: number;
  readonly neighbourOf: (rank: number, side: Side) => number;
  /** Sends what `origin` has found to the neighbour on that side, if it is still there. */
  readonly tell: (side: Side, origin: number, error: SerializedError) => void;
  /** Gives the neighbour on that side up if it shows no life. Returns whether it does not. */
  readonly giveUpIfSilent: (side: Side) => boolean;
  /** The error for the neighbour on that side if it cannot be reached. */
  readonly missing: (side: Side) => SerializedError;
  /** Called once, with the error that all ranks raise. */
  readonly onAgreed: (error: GradringError) => void;
}

/**
 * Makes all ranks that can still reach each other raise the same error, even if several find something wrong at the
 * same time.
 *
 * A rank that finds something wrong tells both neighbours. Each rank forwards a finding, until it has gone round the
 * ring or reaches a broken link. A rank that knows of a failure adds no finding of its own. Links keep their order. So
 * when one rank's finding has arrived from both sides, the findings of all other ranks have arrived, too. If the ring
 * is broken, the findings of the ranks at both ends show that no more will come. Then all ranks choose from the same
 * findings, in the same way. If neither happens, they choose after SETTLE_MS.
 */
export class FailureAgreement {
  /** Whether this rank knows that any rank has found something wrong. */
  begun = false;
  /** What ranks have found, by rank. */
  private readonly causes = new Map<number, SerializedError>();
  /** The ranks whose findings have arrived from that side. */
  private readonly heard = { left: new Set<number>(), right: new Set<number>() };
  /** Sides from which no more findings will come: the link is broken there, or further on. */
  private readonly ended = new Set<Side>();
  /** Sides where this rank has no neighbour any more. */
  private readonly gone = new Set<Side>();
  private timer: NodeJS.Timeout | undefined;
  private agreed = false;

  constructor(private readonly ring: AgreementRing) {}

  /** This rank has found something wrong. After another finding this is taken for its consequence, and ignored. */
  find(error: SerializedError): void {
    if (!this.begun) this.say(error);
  }

  /** The finding of a rank has arrived from that side. */
  hear(side: Side, origin: number, error: SerializedError): void {
    const { rank } = this.ring;
    if (this.heard[side].has(origin)) return;
    this.heard[side].add(origin);
    this.giveUpSilent(error);
    if (origin !== rank) this.tell(opposite(side), origin, error);
    if (this.agreed) return;
    this.begin(origin, error);
    if (origin === rank || this.heard[opposite(side)].has(origin)) return this.settle();
    if (isLossOf(this.ring.neighbourOf(origin, side), error)) this.ended.add(side);
    if (isLossOf(rank, error) && this.ring.neighbourOf(rank, opposite(side)) === origin) this.deny(opposite(side));
    this.confirm();
  }

  /** There is no neighbour on that side any more. */
  lose(side: Side): void {
    this.gone.add(side);
    this.ended.add(side);
    if (this.begun) this.confirm();
  }

  /**
   * The neighbour on that side reports this rank as lost. So the link between them is broken, even if this end has not
   * noticed.
   */
  private deny(side: Side): void {
    this.gone.add(side);
    this.ended.add(side);
    if (!this.causes.has(this.ring.rank)) this.say(this.ring.missing(side));
  }

  /** If this rank has also lost the rank that others report, it reports the same. Settles if both ends are known. */
  private confirm(): void {
    const { rank } = this.ring;
    for (const side of this.gone) {
      const lost = this.ring.neighbourOf(rank, side);
      const known = [...this.causes.values()].find(cause => isLossOf(lost, cause));
      if (known !== undefined && !this.causes.has(rank)) this.say(known);
    }
    if (this.ended.size === 2) this.settle();
  }

  private say(error: SerializedError): void {
    this.giveUpSilent(error);
    this.begin(this.ring.rank, error);
    for (const side of SIDES) this.tell(side, this.ring.rank, error);
    if (this.ended.size === 2) this.settle();
  }

  /**
   * The left neighbour of a silent rank notices first (see Link). The right one gives the silent rank up when it hears
   * that. The silent rank must not be told: if it runs again later, it would find its left neighbour lost, and report
   * that before the others have ended.
   */
  private giveUpSilent(error: SerializedError): void {
    for (const side of SIDES) {
      const neighbour = this.ring.neighbourOf(this.ring.rank, side);
      if (this.gone.has(side) || !isLossOf(neighbour, error) || !this.ring.giveUpIfSilent(side)) continue;
      this.gone.add(side);
      this.ended.add(side);
    }
  }

  private tell(side: Side, origin: number, error: SerializedError): void {
    if (!this.gone.has(side)) this.ring.tell(side, origin, error);
  }

  private begin(origin: number, error: SerializedError): void {
    this.begun = true;
    if (!this.causes.has(origin)) this.causes.set(origin, error);
    this.timer ??= setTimeout(() => this.settle(), SETTLE_MS);
  }

  private settle(): void {
    if (this.agreed) return;
    this.agreed = true;
    clearTimeout(this.timer);
    this.ring.onAgreed(deserializeError(firstOf(this.causes)));
  }
}

/**
 * The cause that all ranks raise. A lost rank or a timeout may be the consequence of another cause, which goes first.
 */
function firstOf(causes: ReadonlyMap<number, SerializedError>): SerializedError {
  const named = ({ details }: SerializedError) => details.rank ?? Number.MAX_SAFE_INTEGER;
  const [[origin, first]] = [...causes].sort(
    ([a, one], [b, other]) => weightOf(one) - weightOf(other) || named(one) - named(other) || a - b,
  ) as [[number, SerializedError]];
  const { rank } = first.details;
  const theirs = rank === undefined ? undefined : causes.get(rank);
  if (theirs === undefined || !isLossOf(rank!, first) || !isLossOf(origin, theirs)) return first;
  const words = `The link between rank ${rank} and rank ${origin} is broken: both are running, but neither reaches the other. ${first.message}`;
  return { ...first, message: words };
}

function weightOf({ code }: SerializedError): number {
  return ['ERR_PEER_LOST', 'ERR_TIMEOUT'].indexOf(code);
}

function isLossOf(rank: number, { code, details }: SerializedError): boolean {
  return code === 'ERR_PEER_LOST' && details.rank === rank;
}
