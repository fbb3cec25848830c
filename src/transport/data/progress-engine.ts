import type { Lane } from './lane';
import { type Asked, poll, yieldCore } from './system-calls';

/** While lanes wait, the event loop turns this often, in ms: others want to be heard, too. */
const TURN_MS = 1;

/**
 * For so long lanes are looked at again and again before the thread sleeps, in ms: to be woken takes longer than most
 * waits. Not where others need the core meanwhile.
 */
const SPIN_MS = 1;

/** After so long in vain, in ms, the event loop alone wakes this thread. */
const PATIENCE_MS = 20;

/**
 * Moves the data of a ring while collectives wait for it, as the progress engines of MPI do: the thread sleeps until
 * one of the descriptors is ready, and not in the event loop, from where it takes several times as long to whoever
 * waits.
 *
 * It begins when JavaScript has nothing left to do but to wait, and lets the event loop turn now and then.
 */
export class ProgressEngine {
  private running = false;
  /** When something last moved, and when the event loop last turned. */
  private movedAt = 0;
  private turnedAt = 0;

  constructor(
    private readonly lanes: readonly Lane[],
    /** Whether there is a core for each rank of this host. */
    private readonly hasCore: boolean,
  ) {}

  /** To be called when a lane has begun to wait. */
  run(): void {
    if (this.running) return;
    this.running = true;
    this.movedAt = this.turnedAt = performance.now();
    this.whenIdle();
  }

  /** Goes on when all jobs of JavaScript are done: what they wait for is known then. */
  private whenIdle(): void {
    // Ticks come when no job is left. A tick for the next one would come before the jobs that this one has made.
    queueMicrotask(() => process.nextTick(() => this.step()));
  }

  /** Moves what can be moved, again and again, until JavaScript has something to do, or the event loop is to turn. */
  private step(): void {
    for (;;) {
      if (!this.lanes.some(lane => lane.waits)) {
        this.running = false;
        return;
      }
      if (this.move()) {
        this.whenIdle();
        return;
      }
      const now = performance.now();
      const spins = this.hasCore && now - this.movedAt < SPIN_MS;
      // What is waited for may come by the event loop alone: from the link, or without koffi.
      const isDirect = this.lanes.every(lane => !lane.waits || lane.isDirect);
      if (now - this.movedAt > PATIENCE_MS || !(spins || isDirect)) {
        this.running = false;
        if (this.sleepIn('event loop')) this.run();
        return;
      }
      if (!isDirect || now - this.turnedAt > TURN_MS) {
        setImmediate(() => {
          this.turnedAt = performance.now();
          this.whenIdle();
        });
        return;
      }
      if (spins) yieldCore();
      else if (this.sleepIn('poll')) {
        this.whenIdle();
        return;
      } else poll(this.asked(), TURN_MS);
    }
  }

  /** Returns whether anything that is waited for could be done. */
  private move(): boolean {
    let moved = false;
    for (const lane of this.lanes) moved = lane.move() || moved;
    if (moved) this.movedAt = performance.now();
    return moved;
  }

  private sleepIn(where: 'poll' | 'event loop'): boolean {
    let moved = false;
    for (const lane of this.lanes) moved = lane.sleepIn(where) || moved;
    return moved;
  }

  private asked(): Asked[] {
    return this.lanes.flatMap(lane => lane.asked);
  }
}
