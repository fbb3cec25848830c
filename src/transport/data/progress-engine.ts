import type { Lane } from './lane';
import { poll, type Polled, yieldCore } from './system-calls';

/** While lanes wait, the event loop turns this often, in ms, because other events must be handled, too. */
const TURN_MS = 1;

/**
 * How long the engine tries again and again before the thread sleeps, in ms, because waking up takes longer than most
 * waits. It does not do so if other ranks need the core.
 */
const SPIN_MS = 1;

/** After this time without progress, in ms, only the event loop wakes this thread. */
const PATIENCE_MS = 20;

/**
 * Moves the bytes of lanes while collectives wait for them, as the progress engines of MPI do. The thread sleeps in
 * `poll` until a descriptor is ready. Each wake-up from the event loop would cost several times as much.
 *
 * The engine runs when JavaScript can only wait, and lets the event loop turn now and then.
 */
export class ProgressEngine {
  private running = false;
  /** When bytes last moved, and when the event loop last turned. */
  private movedAt = 0;
  private turnedAt = 0;

  constructor(
    private readonly lanes: readonly Lane[],
    /** Whether there is a core for each rank of this host. */
    private readonly hasCore: boolean,
  ) {}

  /** Call it when a lane has begun to wait. */
  run(): void {
    if (this.running) return;
    this.running = true;
    this.movedAt = this.turnedAt = performance.now();
    this.whenIdle();
  }

  /** Continues when all microtasks are done, because only then it is known what the collectives wait for. */
  private whenIdle(): void {
    // A tick runs when no microtask is left. It is queued by a microtask, so that those queued before run first.
    queueMicrotask(() => process.nextTick(() => this.step()));
  }

  /** Moves what it can, again and again, until JavaScript has something to do or the event loop must turn. */
  private step(): void {
    for (;;) {
      if (!this.lanes.some(waits)) {
        this.running = false;
        return;
      }
      if (this.move()) {
        this.whenIdle();
        return;
      }
      const now = performance.now();
      const spins = this.hasCore && now - this.movedAt < SPIN_MS;
      // Encrypted bytes, for example, are moved only by the event loop.
      const isDirect = this.lanes.every(lane => !waits(lane) || lane.isDirect);
      if (now - this.movedAt > PATIENCE_MS || !(spins || isDirect)) {
        this.running = false;
        if (this.tryBeforeWaiting('event loop')) this.run();
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
      else if (this.tryBeforeWaiting('poll')) {
        this.whenIdle();
        return;
      } else poll(this.polled(), TURN_MS);
    }
  }

  /** Moves bytes on all lanes. Returns whether that finished anything that a collective waits for. */
  private move(): boolean {
    let moved = false;
    for (const lane of this.lanes) moved = lane.move() || moved;
    if (moved) this.movedAt = performance.now();
    return moved;
  }

  private tryBeforeWaiting(where: 'poll' | 'event loop'): boolean {
    let moved = false;
    for (const lane of this.lanes) moved = lane.tryBeforeWaiting(where) || moved;
    return moved;
  }

  private polled(): Polled[] {
    return this.lanes.flatMap(lane => lane.polled());
  }
}

function waits(lane: Lane): boolean {
  return lane.waitsForRoom || lane.waitsForFrame;
}
