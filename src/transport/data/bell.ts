import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { readPipe } from './system-calls';

/** Where to read to. */
const HEARD = Buffer.alloc(64);

/**
 * What wakes a thread that sleeps in its event loop: the end of a pipe. To ring costs another process one system call,
 * and wakes nobody else; a message over ZeroMQ would wake a thread of its own at either side.
 */
export class Bell {
  /** Called when it has been rung, once or more. */
  onRing: () => void = () => undefined;
  private readonly socket: Socket;

  /** @param readEnd Of a pipe; closed with the bell. */
  constructor(readonly readEnd: number) {
    this.socket = new Socket({ fd: readEnd, readable: true, writable: false });
    this.socket
      .on('data', () => this.onRing())
      .on('error', () => undefined) // the link tells that the neighbour is gone
      .unref();
  }

  /** Forgets what has been rung. */
  hush(): void {
    readPipe(this.readEnd, HEARD);
  }

  close(): void {
    this.socket.destroy();
  }
}

const RING = Buffer.of(1);

/** Rings the bell at the other end of a pipe. */
export function ring(writeEnd: number): void {
  try {
    writeSync(writeEnd, RING);
  } catch {
    // It is full of rings that are still to be heard, or nobody is there to hear them.
  }
}
