/** Starts a comm thread in a {@link Shelter}. Runs first as the sentry, which runs it again as the door. */
import { readSync, writeSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { MessageChannel, type MessagePort, Worker, workerData } from 'node:worker_threads';
import type { ThreadData } from './thread-protocol';

const data = workerData as ThreadData;

function beSentry(): void {
  const { port1, port2 } = new MessageChannel();
  port1.on('message', () => port1.postMessage(undefined));
  startThread(__filename, port2).once('exit', () => port1.close());
}

function beDoor(sentry: MessagePort): void {
  startThread(join(__dirname, 'comm-thread.js'), sentry).once('message', (path: string) => {
    const socket = connect(path, () => {
      // Node has no public way to a descriptor, nor to make it block.
      const handle = (socket as unknown as { _handle: { fd: number; setBlocking(isBlocking: boolean): void } })._handle;
      handle.setBlocking(true);
      writeSync(handle.fd, '.');
      readSync(handle.fd, Buffer.alloc(1)); // sleeps until the other end is closed
      socket.destroy();
    });
  });
}

function startThread(file: string, sentry: MessagePort): Worker {
  return new Worker(file, { workerData: { ...data, sentry } satisfies ThreadData, transferList: [data.port, sentry] });
}

if (data.sentry === undefined) beSentry();
else beDoor(data.sentry);
