/**
 * The comm thread: a worker that owns the sockets. It runs the collectives one at a time, in the order of the main
 * thread's requests. The main thread may sleep in `Atomics.wait` meanwhile.
 */
import { workerData } from 'node:worker_threads';
import { GradringError, inRun, type SerializedError, serializeError } from '../errors';
import { instantiateKernels } from '../kernels/wasm-kernels';
import { closeAllSockets } from '../transport/control/open-sockets';
import { SoloTransport } from '../transport/transport';
import { wakingNow } from '../waking-time';
import { CommandRunner } from './command-runner';
import { ElasticMembership } from './elastic-membership';
import { type Membership, StaticMembership } from './membership';
import { observeThread } from './observe-thread';
import { say } from './say';
import { Shelter } from './shelter';
import {
  type Abort,
  CONTROL,
  CRASHED,
  type End,
  READY,
  type ReceivedArray,
  type Request,
  type Response,
  type ThreadData,
} from './thread-protocol';

const BEAT_MS = 1_000;

/** Answers the requests of the main thread, in all rings of this rank. */
class CommThread {
  private readonly membership: Membership;
  private readonly observer;
  private readonly beat = setInterval(() => this.countBeat(), BEAT_MS);
  private readonly unanswered = new Set<number>();
  /** Settles when all requests so far have been carried out, apart from messages. */
  private ran: Promise<void> = Promise.resolve();
  /** The messages that are being sent or received. */
  private readonly messages = new Set<Promise<void>>();
  private ending: End | undefined;
  private shelter: Shelter | undefined;

  constructor(private readonly data: ThreadData) {
    const { options, memory, scratch } = data;
    this.observer = observeThread('comm', data);
    const context = {
      transport: new SoloTransport(this.observer),
      kernels: instantiateKernels(memory),
      memory,
      scratch,
    };
    const runner = new CommandRunner(context, options, say);
    const Kind = options.elastic === undefined ? StaticMembership : ElasticMembership;
    this.membership = new Kind(options, this.observer, runner);
  }

  /** Joins the ring. Tells the main thread when it has formed, or why not. */
  async start(): Promise<void> {
    this.countBeat();
    Atomics.notify(this.data.control, CONTROL.beat);
    // No request arrives before the response that says that the ring has formed.
    this.data.port.on('message', (message: Request | Abort | End) => this.hear(message));
    process.on('uncaughtException', error => this.crash(error));
    const { sentry } = this.data;
    if (sentry !== undefined) this.shelter = await Shelter.enter(sentry, () => void this.end('drop'));
    await this.answer(READY, () => this.membership.join());
  }

  private hear(request: Request | Abort | End): void {
    if (typeof request === 'string') return void this.end(request);
    if ('abort' in request) return this.abort(request);
    const { id, name } = request;
    this.unanswered.add(id);
    this.membership.onRequest();
    const run = async () => {
      await this.answer(id, () => this.membership.carryOut(request));
      this.unanswered.delete(id);
    };
    if (name === 'send' || name === 'receive') {
      const message = run();
      this.messages.add(message);
      void message.then(() => this.messages.delete(message));
    } else {
      const earlier = name === 'close' ? Promise.all([this.ran, ...this.messages]) : this.ran;
      this.ran = earlier.then(run);
    }
  }

  /** Other ranks may be in the collective, or come to it, and cannot finish it without this rank. */
  private abort({ abort: id }: Abort): void {
    if (!this.unanswered.has(id)) return;
    const { transport } = this.membership;
    const { rank } = transport;
    const words = `Rank ${rank} has aborted a call, by an AbortSignal, before all ranks were done with it.`;
    void transport.fail(new GradringError('ERR_ABORTED', words, { rank }));
  }

  private async answer(id: number, run: () => Promise<unknown>): Promise<void> {
    try {
      this.respond(id, { result: await run() });
    } catch (error) {
      this.respond(id, { error: this.serialize(error) });
    }
  }

  private serialize(error: unknown): SerializedError {
    const told = error instanceof GradringError ? inRun(error, this.data.options.ranksOfRun) : error;
    return serializeError(told, 'ERR_COMM_THREAD');
  }

  private respond(id: number, { result, error }: { result?: unknown; error?: SerializedError }): void {
    const transfer = bodiesOf(result).map(bytes => bytes.buffer as ArrayBuffer);
    const response: Response = result === undefined && error === undefined ? id : { id, result, error };
    this.data.port.postMessage(response, transfer);
    this.wakeUser();
  }

  /** An error outside of a request ends the ring for all ranks, and this thread. */
  private crash(error: Error): void {
    const { rank } = this.data.options;
    const words = `The comm thread of rank ${rank} failed: ${error.stack}`;
    const failure = new GradringError('ERR_COMM_THREAD', words, { rank });
    for (const id of [...this.unanswered, CRASHED]) this.respond(id, { error: this.serialize(failure) });
    void this.membership.transport.fail(failure);
    void this.end('drop');
  }

  /**
   * Ends everything that keeps the thread alive. A thread that is leaving may still be told to drop everything, but not
   * the other way round.
   */
  private async end(how: End): Promise<void> {
    if (this.ending === 'drop' || this.ending === how) return;
    this.ending = how;
    const { transport } = this.membership;
    // A ring that has failed is closed in order, too, because the neighbours must receive the first cause.
    if (how === 'leave' || transport.failed) await transport.close();
    await closeAllSockets();
    this.observer.close();
    clearInterval(this.beat);
    const { port, control } = this.data;
    port.close();
    Atomics.store(control, CONTROL.closed, 1);
    Atomics.notify(control, CONTROL.closed);
    this.wakeUser(); // it may wait for an answer that will not come
    this.shelter?.leave();
    // The process now ends this thread, wherever it is. Inside zeromq that would abort the process, so it waits here.
    if (Atomics.load(control, CONTROL.exiting) === 1) Atomics.wait(control, CONTROL.exiting, 1);
  }

  private wakeUser(): void {
    Atomics.add(this.data.control, CONTROL.responses, 1);
    Atomics.notify(this.data.control, CONTROL.responses);
  }

  private countBeat(): void {
    wakingNow(); // so that this clock goes between two calls, too
    Atomics.add(this.data.control, CONTROL.beat, 1);
  }
}

/** The parts of a result that are transferred to the main thread, not copied. */
function bodiesOf(result: unknown): readonly Uint8Array[] {
  if (Array.isArray(result)) return result as Uint8Array[];
  const { bytes } = (result ?? {}) as Partial<ReceivedArray>;
  return bytes === undefined ? [] : [bytes];
}

void new CommThread(workerData as ThreadData).start();
