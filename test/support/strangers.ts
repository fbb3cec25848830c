import { connect, type Socket } from 'node:net';
import { Dealer, Pair } from 'zeromq';

/** Opens a connection, says something and leaves, gently or not. */
export function intrude(
  port: number,
  bytes: Uint8Array | string,
  leave: 'end' | 'reset' | 'stay',
  host = '127.0.0.1',
): Promise<() => void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host });
    socket.on('error', error => ((error as { code?: string }).code === 'ECONNREFUSED' ? reject(error) : undefined));
    socket.once('connect', () => {
      socket.write(bytes, () => {
        if (leave === 'end') socket.end();
        if (leave === 'reset') socket.resetAndDestroy();
        resolve(() => socket.destroy());
      });
    });
  });
}

/** What strangers say at a port, and how they leave. */
export const VISITS: [Uint8Array | string, 'end' | 'reset' | 'stay'][] = [
  ['', 'end'],
  ['', 'reset'],
  ['', 'stay'],
  ['GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', 'end'],
  ['GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', 'stay'],
  [Uint8Array.from({ length: 5_000 }, (_, i) => (i * 131) % 256), 'stay'],
  // A greeting of ZeroMQ's (version 3.1, NULL mechanism), and then no word more, or nonsense.
  [Uint8Array.of(0xff, ...Array<number>(8).fill(0), 0x7f, 3, 1, ...Buffer.from('NULL'), ...Array<number>(48).fill(0)), 'stay'],
  [Uint8Array.of(0xff, ...Array<number>(8).fill(0), 0x7f, 3, 1, ...Buffer.from('NULL'), ...Array<number>(48).fill(0), 0xff, 1, 2, 3), 'end'],
]; // prettier-ignore

/** How a client of ZeroMQ begins that will speak CURVE. */
export function curveGreeting(): Buffer {
  const greeting = Buffer.alloc(64);
  greeting.set([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1]);
  greeting.write('CURVE', 12, 'latin1');
  return greeting;
}

/**
 * How a connection of ZeroMQ's ends in the handshake, or that it stands. The stranger comes with the type of socket
 * that fits, and says something as soon as it can.
 */
export async function knock(
  at: 'link' | 'rendezvous',
  port: number,
  curve: object,
  host = '127.0.0.1',
): Promise<string> {
  const options = { linger: 0, reconnectInterval: -1, ...curve };
  const stranger = at === 'link' ? new Pair(options) : new Dealer(options);
  const { events } = stranger;
  stranger.connect(`tcp://${host}:${port}`);
  void stranger.send('let me in').catch(() => undefined);
  let outcome: string | undefined;
  for (;;) {
    const { type } = await events.receive();
    if (type.startsWith('handshake')) {
      outcome = type;
      stranger.close();
    }
    if (type === 'end') return outcome ?? 'none';
  }
}

/**
 * Announces a first message of 1 GB, and sends of it what is taken, `bytes` at most. Resolves with how many it could
 * send until it was cut off.
 */
export function sendGigabyte(port: number, bytes = 100_000, host = '127.0.0.1'): Promise<number> {
  const length = Buffer.alloc(9);
  length[0] = 0x06; // a long command
  length.writeBigUInt64BE(2n ** 30n, 1);
  const socket = connect({ port, host });
  const piece = Buffer.alloc(Math.min(bytes, 2 ** 20));
  return new Promise(resolve => {
    let left = bytes;
    const more = () => {
      while (left > 0 && !socket.destroyed) {
        left -= piece.length;
        if (!socket.write(piece)) return;
      }
    };
    socket.on('error', () => undefined).resume();
    socket.on('drain', more);
    socket.once('close', () => resolve(bytes - left));
    socket.write(Buffer.concat([curveGreeting(), length]));
    more();
  });
}

/** Says a greeting, a byte now and then. Returns how many bytes it has said, and how to stop it. */
export function dawdle(ports: readonly number[], host = '127.0.0.1'): { said: () => number; stop: () => void } {
  const sockets: Socket[] = ports.map(port => connect({ port, host }).on('error', () => undefined));
  let said = 0;
  const timer = setInterval(() => {
    for (const socket of sockets) socket.write(curveGreeting().subarray(said, said + 1));
    said += 1;
  }, 20);
  const stop = () => {
    clearInterval(timer);
    sockets.forEach(socket => socket.destroy());
  };
  return { said: () => said, stop };
}

/** What a port of ZeroMQ's asks of who connects: NULL (nothing) or CURVE. */
export function mechanismAt(port: number, host = '127.0.0.1'): Promise<string> {
  return new Promise(resolve => {
    const socket = connect({ port, host });
    let heard = Buffer.alloc(0);
    socket.on('error', () => undefined);
    socket.on('close', () => resolve('no ZeroMQ'));
    socket.write(curveGreeting().subarray(0, 12)); // up to where it would tell its own
    socket.on('data', (bytes: Buffer) => {
      heard = Buffer.concat([heard, bytes]);
      if (heard.length < 32) return;
      resolve(heard.toString('latin1', 12, 32).replaceAll('\0', ''));
      socket.destroy();
    });
  });
}
