// The thread of LinkDelay: forwards the connections to ports of this rank, and delivers all that they carry late.
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { type Delay, DelayLine } from './delay-line';
import type { ForwardAnswer, ForwardRequest } from './link-delay';

const delay = workerData as Delay;

/** So much may be on its way in one direction. What comes beyond is not read, so its sender feels backpressure. */
const MOST_BYTES = 64 * 2 ** 20;

const servers: Server[] = [];

parentPort!.on('message', (request: ForwardRequest | 'close') => {
  if (request !== 'close') return open(request);
  for (const server of servers) server.close();
  parentPort!.close(); // the thread ends with its last connection
});

function open({ host, from, to }: ForwardRequest): void {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, near => {
    const far = connect({ host: host ?? '127.0.0.1', port: to, allowHalfOpen: true, noDelay: true });
    // A handshake of TCP takes one trip before the server may send, and two before the client does.
    const now = performance.now();
    forward(near, far, now + 3 * delay.delayMs);
    forward(far, near, now + 2 * delay.delayMs);
  });
  const answer = (message: ForwardAnswer) => parentPort!.postMessage(message);
  server.on('error', ({ message, code }: NodeJS.ErrnoException) => {
    if (!server.listening) answer({ error: { message, code } }); // else one connection could not be accepted
  });
  server.listen({ host, port: from, exclusive: true }, () => answer({ port: (server.address() as AddressInfo).port }));
  servers.push(server);
}

/** Delivers what comes from one end to the other. */
function forward(from: Socket, to: Socket, notBefore: number): void {
  let waiting = 0;
  const line = new DelayLine<Buffer | 'end' | 'reset'>(
    delay,
    item => {
      if (item === 'end') return void to.end();
      if (item === 'reset') return void to.resetAndDestroy();
      waiting -= item.length;
      to.write(item);
      resume();
    },
    notBefore,
  );
  const resume = () => {
    if (from.isPaused() && waiting + to.writableLength < MOST_BYTES) from.resume();
  };
  to.on('drain', resume);
  from
    .on('data', (bytes: Buffer) => {
      waiting += bytes.length;
      line.give(bytes);
      if (waiting + to.writableLength >= MOST_BYTES) from.pause();
    })
    .on('end', () => line.give('end'))
    .on('error', () => undefined) // it is closed then
    .on('close', hadError => {
      if (hadError || !from.readableEnded) line.give('reset');
    });
}
