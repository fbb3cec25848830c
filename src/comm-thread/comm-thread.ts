/**
 * The comm thread: a worker that owns the sockets and runs the collectives, one at a time, in the order in which the
 * user's thread asked for them. The user's thread may sleep in `Atomics.wait` meanwhile; this one never does.
 */
import { writeSync } from 'node:fs';
import { workerData } from 'node:worker_threads';
import type { CollectiveContext } from '../collectives/collective-call';
import { GradringError, serializeError } from '../errors';
import { instantiateKernels } from '../kernels/wasm-kernels';
import { Timeline } from '../timeline/timeline';
import { closeAllSockets } from '../transport/control/open-sockets';
import { CommandRunner } from './command-runner';
import { ElasticThread } from './elastic-thread';
import { formRing } from './form-ring';
import {
  CONTROL,
  CRASHED,
  type End,
  READY,
  type Request,
  type Response,
  type RingCommand,
  type RingPlace,
  type ThreadData,
} from './thread-protocol';

const BEAT_MS = 500;

/** The file descriptor. */
const STDERR = 2;

/** Says a line at once, though the user's thread, through which `console` would go, may be asleep. */
function say(line: string): void {
  try {
    writeSync(STDERR, `${line}\n`);
  } catch {
    // Nobody reads it.
  }
}

async function main(data: ThreadData): Promise<void> {
  const { options, memory, scratch, port, control } = data;
  const timeline = data.timeline && new Timeline(data.timeline, 'comm');
  const countBeat = () => Atomics.add(control, CONTROL.beat, 1);
  const beat = setInterval(countBeat, BEAT_MS);
  let collectives: CollectiveContext | undefined;
  let runner: CommandRunner | undefined;
  let ran: Promise<void> = Promise.resolve();
  const elastic = options.elastic && new ElasticThread(options, memory, scratch, timeline, say);
  const ring = () => elastic?.ring ?? collectives?.transport;

  const respond = (response: Omit<Response, 'traffic'>) => {
    const { result } = response;
    const traffic = ring()?.traffic ?? { bytesSent: 0, bytesReceived: 0 };
    const transfer = Array.isArray(result) ? (result as Uint8Array[]).map(bytes => bytes.buffer as ArrayBuffer) : [];
    port.postMessage({ ...response, traffic } satisfies Response, transfer);
    Atomics.add(control, CONTROL.responses, 1);
    Atomics.notify(control, CONTROL.responses);
  };

  let ending: End | undefined;
  /**
   * After this nothing keeps the thread alive. Who has begun to leave may still be told to drop all, but not the other
   * way round.
   */
  const end = async (how: End) => {
    if (ending === 'drop' || ending === how) return;
    ending = how;
    // A ring that has failed is left with care too: the neighbours must hear the first cause.
    if (how === 'leave' || collectives?.transport.failed) await collectives?.transport.close();
    if (how === 'leave') await elastic?.close();
    await closeAllSockets();
    timeline?.close();
    clearInterval(beat);
    port.close();
    Atomics.store(control, CONTROL.closed, 1);
    Atomics.notify(control, CONTROL.closed);
    Atomics.add(control, CONTROL.responses, 1); // whoever sleeps for an answer has none to expect
    Atomics.notify(control, CONTROL.responses);
    // The process now ends this thread wherever it stands, and would abort if that were within zeromq. So it stands
    // still.
    if (Atomics.load(control, CONTROL.exiting) === 1) Atomics.wait(control, CONTROL.exiting, 1);
  };
  const unanswered = new Set<number>();
  const carryOut = async (request: Request) => {
    const { id, name, input } = request;
    try {
      const result = await (elastic?.carryOut(request) ?? runner!.run(name as RingCommand, input as never));
      respond({ id, result });
    } catch (error) {
      respond({ id, error: serializeError(error, 'ERR_COMM_THREAD') });
    }
  };
  countBeat();
  Atomics.notify(control, CONTROL.beat);
  port.on('message', (message: Request | End) => {
    // No request comes before the response that says that the ring stands.
    if (typeof message === 'string') void end(message);
    else {
      unanswered.add(message.id);
      elastic?.onAsked();
      ran = ran.then(() => carryOut(message)).then(() => void unanswered.delete(message.id));
    }
  });
  process.on('uncaughtException', error => {
    const { rank } = options;
    const words = `The comm thread of rank ${rank} failed: ${error.stack}`;
    const failure = new GradringError('ERR_COMM_THREAD', words, { rank });
    for (const id of [...unanswered, CRASHED]) {
      respond({ id, error: serializeError(failure, 'ERR_COMM_THREAD') });
    }
    elastic?.fail(failure);
    void collectives?.transport.fail(failure);
    void end('drop');
  });

  try {
    if (elastic !== undefined) {
      respond({ id: READY, result: await elastic.begin() });
      return;
    }
    const { transport } = await formRing(options, timeline, error => runner?.onRingFailure(error));
    collectives = { transport, kernels: instantiateKernels(memory), memory, scratch };
    runner = new CommandRunner(collectives, options, say);
    const { rank, worldSize } = transport;
    respond({ id: READY, result: { rank, worldSize, generation: 0 } satisfies RingPlace });
  } catch (error) {
    respond({ id: READY, error: serializeError(error, 'ERR_COMM_THREAD') });
  }
}

void main(workerData as ThreadData);
