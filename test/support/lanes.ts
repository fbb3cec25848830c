import { createCipheriv } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import type { AssembledFrame } from '../../src/transport/data/frame-assembly';
import type { Landing } from '../../src/transport/data/landing';
import { Lane } from '../../src/transport/data/lane';
import { ProgressEngine } from '../../src/transport/data/progress-engine';
import { SharedMemoryLane } from '../../src/transport/data/shared-memory-lane';
import { TcpLane } from '../../src/transport/data/tcp-lane';
import type { DataFrame } from '../../src/transport/transport';
import { FRAME, HERE, type LaneKind } from './transports';

/** What a lane has told its ring. */
export interface Told {
  lost: number;
  readonly broken: Error[];
}

/** Makes a lane work without a ring. */
export function attach(lane: Lane, hasCore = false): Told {
  const told: Told = { lost: 0, broken: [] };
  const engine = new ProgressEngine([lane], hasCore);
  lane.attach({
    accept: dataFrame,
    onWait: () => engine.run(),
    onBroken: error => told.broken.push(error),
    onLost: () => (told.lost += 1),
  });
  return told;
}

/** A frame as a ring would make it, whatever its header says. */
export function dataFrame(frame: AssembledFrame): DataFrame {
  return { ...frame, header: { ...FRAME, sequence: 0, origin: 0 } };
}

/** Both ends of a lane, open: the one that made the memory, or listens, and the other. */
export async function bothEnds(kind: LaneKind): Promise<{ first: Lane; second: Lane; close: () => void }> {
  let ends: [Lane, Lane];
  if (kind === 'shared memory') {
    const folder = mkdtempSync(path.join(tmpdir(), 'gradring-lane-'));
    const file = path.join(folder, 'lane');
    ends = [SharedMemoryLane.create(file, false)!, SharedMemoryLane.open(file, false)!];
    rmSync(folder, { recursive: true });
  } else {
    const isEncrypted = kind === 'encrypted TCP';
    const listening = await TcpLane.listen(HERE, isEncrypted);
    ends = [listening, TcpLane.connect(listening.offer!, isEncrypted)];
  }
  const [first, second] = ends;
  await Promise.all([first.opened(), second.opened()]);
  return { first, second, close: () => ends.forEach(end => end.close()) };
}

/**
 * Both ends of a lane in the memory of this thread, for tests that decide what happens when. Only {@link wake} wakes an
 * end.
 */
export class ScriptedLane extends Lane {
  readonly medium = 'shared-memory';
  isDirect = true;
  protected readonly isFlushed = true;
  /** The other end. */
  other!: ScriptedLane;
  /** How many bytes the other end can have sent that this one has not received. */
  capacity = Infinity;
  /** How often this end has tried to send or to receive. */
  tries = 0;
  /** Called before it does. */
  onTry: () => void = () => undefined;
  /** Where this end was about to wait. */
  readonly waits: ('poll' | 'event loop')[] = [];
  /** Called when it was about to. */
  onWaiting: (where: 'poll' | 'event loop') => void = () => undefined;
  private come = Buffer.alloc(0);

  static bothEnds(): [ScriptedLane, ScriptedLane] {
    const [first, second] = [new ScriptedLane(), new ScriptedLane()];
    first.other = second;
    second.other = first;
    return [first, second];
  }

  /** Has bytes come from the other end. */
  put(...bytes: Uint8Array[]): void {
    this.come = Buffer.concat([this.come, ...bytes]);
  }

  /** How many bytes have come that this end has not received. */
  get unread(): number {
    return this.come.length;
  }

  /** The other end has sent something, or has made room. */
  wake(): void {
    this.woken();
  }

  /** The connection is broken. */
  breakDown(): void {
    this.lost();
  }

  async opened(): Promise<void> {
    // It is.
  }

  polled(): [] {
    return [];
  }

  prepareToWait(where: 'poll' | 'event loop'): void {
    this.waits.push(where);
    this.onWaiting(where);
  }

  finish(): void {
    // What was sent is there.
  }

  async otherFinished(): Promise<void> {
    this.woken();
  }

  close(): void {
    // Nothing is open.
  }

  protected sendNow(bytes: Uint8Array): number {
    this.attempt();
    const count = Math.max(0, Math.min(bytes.length, this.other.capacity - this.other.come.length));
    this.other.put(bytes.subarray(0, count));
    return count;
  }

  protected receiveNow(place: Uint8Array): number {
    this.attempt();
    const count = Math.min(place.length, this.come.length);
    place.set(this.come.subarray(0, count));
    this.come = this.come.subarray(count);
    return count;
  }

  private attempt(): void {
    this.tries += 1;
    this.onTry();
  }
}

/** Where a body lands, by pieces of at most so many bytes. Each must follow the one before. */
export function landingOf(bytes: number, pieceBytes: number): Landing & { readonly body: Buffer; landed: number } {
  const body = Buffer.alloc(bytes);
  return {
    ...{ bytes, body, landed: 0 },
    place: landed => body.subarray(landed, landed + pieceBytes),
    advance(landed, count) {
      if (landed !== this.landed || count > pieceBytes) throw new Error(`${count} bytes landed at ${landed}.`);
      this.landed += count;
    },
  };
}

/** Bytes of which no two parts are the same. */
const PATTERN = createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16)).update(Buffer.alloc(24_000_000));

/** Bytes that tell one body from another: of at most 20 MB, in memory of its own. */
export const body = (length: number, seed: number) =>
  Buffer.from(PATTERN.subarray(4_003 * seed, 4_003 * seed + length));

/** Lets the event loop turn so often. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await turn();
}

/** A proxy before a port, for one connection. */
export class Proxy {
  /** How many bytes have come from the end that connects, and from the end that listens. */
  readonly passed = { connecting: 0, listening: 0 };
  /** Changes what passes. */
  change: (bytes: Buffer) => Buffer = bytes => bytes;
  private readonly sockets: Socket[] = [];

  private constructor(
    private readonly server: ReturnType<typeof createServer>,
    readonly port: number,
  ) {}

  static async before(port: number): Promise<Proxy> {
    const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const proxy = new Proxy(server, (server.address() as AddressInfo).port);
    server.on('connection', (connecting: Socket) => {
      const listening = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      proxy.sockets.push(connecting, listening);
      // It takes all that comes, whether or not it gets rid of it.
      for (const [name, from, to] of [
        ['connecting', connecting, listening],
        ['listening', listening, connecting],
      ] as const) {
        from
          .on('data', (bytes: Buffer) => {
            proxy.passed[name] += bytes.length;
            to.write(proxy.change(bytes));
          })
          .on('end', () => to.end())
          .on('error', () => to.destroy())
          .on('close', () => to.destroySoon());
      }
    });
    return proxy;
  }

  /** How many bytes it still has to get rid of. */
  get held(): number {
    return this.sockets.reduce((sum, { writableLength }) => sum + writableLength, 0);
  }

  /** Breaks the connection; politely it is ended as by an end that has no more to send. */
  cut(politely = false): void {
    for (const socket of this.sockets) {
      if (politely) socket.end();
      else socket.resetAndDestroy();
    }
  }

  /** Settles when both of its connections are closed. */
  async closed(): Promise<void> {
    await Promise.all(this.sockets.map(socket => socket.closed || once(socket, 'close')));
  }

  close(): void {
    this.server.close();
    for (const socket of this.sockets) socket.destroy();
  }
}

/** How many descriptors this process has open. */
export const openDescriptors = () => readdirSync('/proc/self/fd').length;
