import type { TraceEvent } from './trace-event';

/** A frame that a rank sent or received. */
interface FrameStamp {
  /** The same at both ends of the link. */
  readonly key: string;
  readonly sequence: number;
  /** In microseconds of the rank's own clock. */
  readonly time: number;
}

/** When one rank sent and received the frames that go to the right around the ring. */
export class RankFrames {
  readonly sent: FrameStamp[] = [];
  readonly received: FrameStamp[] = [];
  private readonly occurrences = { sent: new Map<string, number>(), received: new Map<string, number>() };

  /** Adds the next event of the rank's timeline. */
  add(event: TraceEvent): void {
    if (event.ph !== 'X' || event.args['direction'] === 'left') return;
    if (event.name === 'send' || event.name === 'forward') this.stamp('sent', event.ts, event.args);
    if (event.name === 'receive') this.stamp('received', event.ts, event.args);
  }

  /**
   * A collective may use the same numbers of frames twice, for example if it begins with a barrier. Links keep the
   * order of frames, so counting tells them apart.
   */
  private stamp(what: 'sent' | 'received', time: number, args: TraceEvent['args']): void {
    const frame = `${args['sequence']}/${args['origin']}/${args['part']}`;
    const occurrence = this.occurrences[what].get(frame) ?? 0;
    this.occurrences[what].set(frame, occurrence + 1);
    this[what].push({ key: `${frame}/${occurrence}`, sequence: Number(args['sequence']), time });
  }
}

/**
 * How far the clock of a rank is ahead of that of rank 0, at some times of its own clock. Between them it drifts
 * steadily. All times are in microseconds.
 */
export class ClockOffset {
  constructor(private readonly points: readonly { readonly time: number; readonly offset: number }[]) {}

  /** The mean over the whole timeline. */
  get mean(): number {
    return this.points.reduce((sum, { offset }) => sum + offset, 0) / this.points.length;
  }

  /** A time of this rank's clock as one of rank 0's clock, in whole microseconds. The order of times stays. */
  correct(time: number): number {
    return Math.round(time - this.at(time));
  }

  /** The offset at a time of this rank's clock. */
  at(time: number): number {
    const [first] = this.points;
    if (this.points.length === 1) return first!.offset;
    const next = this.points.findIndex((point, i) => i > 0 && point.time >= time);
    const end = next === -1 ? this.points.length - 1 : next;
    const [a, b] = [this.points[end - 1]!, this.points[end]!];
    return a.offset + ((b.offset - a.offset) * (time - a.time)) / (b.time - a.time);
  }
}

/** Clocks drift by some microseconds a second, so offsets are computed for each window of about this length. */
const WINDOW_MICROSECONDS = 30_000_000;

/**
 * The clock offsets of all ranks of a ring, by rank, computed from its frames alone. For each link it takes the frame
 * with the smallest delay, measured with the clocks at both ends. Around the whole ring the offsets cancel, so the sum
 * of these delays is the sum of the true delays, which are assumed to be equal. If a link has more than its share of
 * the sum, that is the offset between its two clocks. The error is as large as the difference between the true smallest
 * delays.
 *
 * @returns `undefined` if there is no window in which frames went over all links.
 */
export function clockOffsets(ranks: readonly RankFrames[]): ClockOffset[] | undefined {
  const windows = windowsOf(ranks[0]!);
  const rough = estimate(ranks, windows);
  // If a clock drifts, the first frames of a window seem faster or slower than the last ones. The second estimate
  // corrects for the drift that the first one found.
  return rough && estimate(ranks, windows, rough);
}

/** @param known Offsets to refine. */
function estimate(
  ranks: readonly RankFrames[],
  windows: Windows,
  known = ranks.map(() => new ClockOffset([{ time: 0, offset: 0 }])),
): ClockOffset[] | undefined {
  const leastDelays = ranks.map((_, r) => {
    const right = (r + 1) % ranks.length;
    return leastDelaysOf({ ...ranks[r]!, clock: known[r]! }, { ...ranks[right]!, clock: known[right]! }, windows);
  });
  const points = ranks.map(() => [] as { time: number; offset: number }[]);
  for (let w = 0; w < windows.count; w++) {
    const delays = leastDelays.map(ofLink => ofLink[w]!);
    if (!delays.every(Number.isFinite)) continue;
    const mean = delays.reduce((sum, delay) => sum + delay, 0) / delays.length;
    let correction = 0;
    delays.forEach((delay, r) => {
      const middle = windows.start + (w + 0.5) * windows.width;
      const time = middle + known[r]!.at(middle) + correction;
      points[r]!.push({ time, offset: known[r]!.at(time) + correction });
      correction += delay - mean;
    });
  }
  return points[0]!.length === 0 ? undefined : points.map(ofRank => new ClockOffset(ofRank));
}

/**
 * The recorded time, cut into windows of rank 0's clock. For other ranks, the number of the collective says in which
 * window they are.
 */
interface Windows {
  readonly start: number;
  readonly width: number;
  readonly count: number;
  readonly bySequence: ReadonlyMap<number, number>;
}

function windowsOf({ sent }: RankFrames): Windows {
  const start = sent[0]?.time ?? 0;
  const span = (sent.at(-1)?.time ?? 0) - start;
  // Times may be damaged, so there are at most as many windows as frames.
  const count = Math.max(1, Math.min(sent.length, Math.round(span / WINDOW_MICROSECONDS)));
  const width = span / count;
  const windowAt = (time: number) => (width === 0 ? 0 : Math.min(count - 1, Math.floor((time - start) / width)));
  return { start, width, count, bySequence: new Map(sent.map(({ sequence, time }) => [sequence, windowAt(time)])) };
}

/** The smallest delays of the link between two ranks, by window. */
function leastDelaysOf(
  left: Pick<RankFrames, 'sent'> & { clock: ClockOffset },
  right: Pick<RankFrames, 'received'> & { clock: ClockOffset },
  windows: Windows,
): number[] {
  const sentAt = new Map(left.sent.map(({ key, time }) => [key, left.clock.correct(time)]));
  const least = new Array<number>(windows.count).fill(Infinity);
  for (const { key, sequence, time } of right.received) {
    const window = windows.bySequence.get(sequence);
    const leftAt = sentAt.get(key);
    if (window === undefined || leftAt === undefined) continue;
    least[window] = Math.min(least[window]!, right.clock.correct(time) - leftAt);
  }
  return least;
}
