import { deserializeError, type GradringError, type SerializedError } from '../../errors';
import { opposite, type Side } from '../side';

/** How long is waited for what other ranks may have found, where no message can tell that all is known. */
const SETTLE_MS = 1_000;

/** What the agreement has of its ring. */
export interface AgreementRing {
  readonly rank: number;
  readonly neighbourOf: (rank: number, side: Side) => number;
  /** Sends what `origin` has found to the neighbour on that side, if there is one still. */
  readonly tell: (side: Side, origin: number, error: SerializedError) => void;
  /** The error for the neighbour on that side, who is not to be reached. */
  readonly missing: (side: Side) => SerializedError;
  /** Called once, with the error that all ranks raise. */
  readonly onAgreed: (error: GradringError) => void;
}

/**
 * Has all ranks that can still hear each other raise the same error, though several may find something wrong at the
 * same time.
 *
 * Who finds something wrong tells both neighbours, and each passes it on until it is round, or at a broken link. Who
 * has heard of a failure finds nothing new any more. So when the word of one rank has come from both sides, so has that
 * of every other that had something to say, for links keep their order; and where the ring is broken, the word of the
 * ranks at both ends tells that no other will come. All then choose the same among the same. Where that cannot be
 * known, SETTLE_MS decides.
 */
export class FailureAgreement {
  /** What ranks have found, by rank. */
  private readonly causes = new Map<number, SerializedError>();
  /** Whose word has come from that side. */
  private readonly heard = { left: new Set<number>(), right: new Set<number>() };
  /** Sides from which nothing more will come: the link is broken there, or further on. */
  private readonly ended = new Set<Side>();
  /** Sides on which this rank has no neighbour any more. */
  private readonly gone = new Set<Side>();
  private timer: NodeJS.Timeout | undefined;
  private agreed = false;

  constructor(private readonly ring: AgreementRing) {}

  /** Whether any rank is known to have found something wrong. */
  get begun(): boolean {
    return this.causes.size > 0;
  }

  /** This rank has found something wrong. What comes after another finding is taken for its consequence. */
  find(error: SerializedError): void {
    if (!this.begun) this.say(error);
  }

  /** The word of a rank has come from that side. */
  hear(side: Side, origin: number, error: SerializedError): void {
    const { rank } = this.ring;
    if (this.heard[side].has(origin)) return;
    this.heard[side].add(origin);
    if (origin !== rank) this.ring.tell(opposite(side), origin, error);
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
   * The neighbour on that side takes this rank for lost. It is not; so it is the link between them that is cut, whether
   * or not this end has noticed.
   */
  private deny(side: Side): void {
    this.gone.add(side);
    this.ended.add(side);
    if (!this.causes.has(this.ring.rank)) this.say(this.ring.missing(side));
  }

  /**
   * Tells the others that the loss they have heard of is at this end of the ring, too; settles if both ends are known.
   */
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
    this.begin(this.ring.rank, error);
    this.ring.tell('left', this.ring.rank, error);
    this.ring.tell('right', this.ring.rank, error);
    if (this.ended.size === 2) this.settle();
  }

  private begin(origin: number, error: SerializedError): void {
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
 * Which of the causes all raise. A lost rank or a deadline may be the consequence of something else, and comes after
 * it.
 */
function firstOf(causes: ReadonlyMap<number, SerializedError>): SerializedError {
  const named = ({ details }: SerializedError) => details.rank ?? Number.MAX_SAFE_INTEGER;
  const [[origin, first]] = [...causes].sort(
    ([a, one], [b, other]) => weightOf(one) - weightOf(other) || named(one) - named(other) || a - b,
  ) as [[number, SerializedError]];
  const { rank } = first.details;
  const theirs = rank === undefined ? undefined : causes.get(rank);
  if (theirs === undefined || !isLossOf(rank!, first) || !isLossOf(origin, theirs)) return first;
  const words = `The link between rank ${rank} and rank ${origin} is cut: both are there, and each misses the other. ${first.message}`;
  return { ...first, message: words };
}

function weightOf({ code }: SerializedError): number {
  return ['ERR_PEER_LOST', 'ERR_TIMEOUT'].indexOf(code);
}

function isLossOf(rank: number, { code, details }: SerializedError): boolean {
  return code === 'ERR_PEER_LOST' && details.rank === rank;
}
