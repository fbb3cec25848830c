import { isMainThread, MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { aborted } from './abort';
import { requireRoomForThread } from '../address-space';
import { SCRATCH_BYTES } from '../collectives/collective-call';
import { closedError, deserializeError, GradringError, inRun } from '../errors';
import { type Observer, sharedMetrics } from '../observer';
import { ownFile } from '../own-file';
import { ProcessCalls } from './process-calls';
import type { Ticket } from '../work';
import { createTimelineFile } from '../timeline/timeline-file';
import type { ConnectOptions } from '../rendezvous/connect-options';
import type { SharedHeap } from '../memory/shared-heap';
import { observeThread } from '../comm-thread/observe-thread';
import {
  type Abort,
  type CommandName,
  type Commands,
  CONTROL,
  CRASHED,
  type End,
  READY,
  type Request,
  type Response,
  type RingPosition,
  type ThreadData,
} from '../comm-thread/thread-protocol';

/** How long the main thread sleeps at a time. */
const SLEEP_MS = 1_000;

/**
 * If the comm thread's event loop has not turned while the main thread has slept so often, it counts as crashed. Sleeps
 * are counted, not time: a process that was stopped has slept once.
 */
const MOST_SLEEPS = 60;

/** How long the end of the process waits until the comm thread has said goodbye. */
const ABANDON_MS = 3_000;

/** What comm threads must do before the process ends. */
const AT_EXIT = new ProcessCalls('exit');

/** How long it waits until a comm thread that is starting, or in a long computation, has closed its sockets. */
const BUSY_MS = 30_000;

/** A command that can be given up: the ring then fails, unless the command is over. */
export interface AbortableTicket<T> extends Ticket<T> {
  abort(): void;
}

/**
 * The main thread's end of the connection to the comm thread. The main thread may await a command, or sleep until it is
 * done. In both cases the comm thread continues, and keeps the links alive.
 */
export class ThreadClient {
  /** Commands that have no answer yet. */
  private readonly pending = new Map<number, Posted>();
  private nextId = READY + 1;
  private ended: GradringError | undefined;
  /** This rank's position in the ring that this thread knows of. */
  position: RingPosition = { rank: 0, worldSize: 1, ranksHere: 1, generation: 0 };
  private terminating = false;
  private readonly exited: Promise<void>;

  private constructor(
    private readonly worker: Worker,
    private readonly port: MessagePort,
    private readonly control: Int32Array,
    /** This thread's. */
    readonly observer: Observer,
  ) {
    port.on('message', (response: Response) => this.settle(response));
    worker.on('error', error => this.end(crashed(`failed: ${(error as Error).stack}`)));
    this.exited = new Promise(resolve => {
      worker.on('exit', () => {
        AT_EXIT.delete(this.abandon);
        this.end(crashed('has ended'));
        resolve();
      });
    });
    AT_EXIT.add(this.abandon);
    this.rest();
  }

  /**
   * Starts the thread and waits for the ring.
   *
   * @throws GradringError `ERR_BUNDLED`, `ERR_TIMELINE`, `ERR_OUT_OF_MEMORY`, and what forming the ring may throw.
   */
  static async start(options: ConnectOptions, heap: SharedHeap, signal?: AbortSignal): Promise<ThreadClient> {
    requireRoomForThread();
    const { rank, worldSize } = options;
    const timeline = options.timeline === undefined ? undefined : createTimelineFile(options.timeline, rank, worldSize);
    const { port1, port2 } = new MessageChannel();
    const control = new Int32Array(new SharedArrayBuffer(CONTROL.words * 4));
    const scratch = heap.allocate(SCRATCH_BYTES);
    const shared = { memory: heap.memory, scratch, control, metrics: sharedMetrics() };
    const data: ThreadData = { options, timeline, port: port2, ...shared };
    const program = ownFile(`comm-thread/${isMainThread ? 'comm-thread.js' : 'sheltered-thread.js'}`);
    const observer = observeThread('training', data);
    const worker = new Worker(program, { workerData: data, transferList: [port2] });
    const client = new ThreadClient(worker, port1, control, observer);
    const abort = () => {
      const error = aborted(`connect was aborted while rank ${rank} waited for the others.`, signal!, { rank });
      client.end(inRun(error, options.ranksOfRun));
    };
    signal?.addEventListener('abort', abort);
    try {
      const ready = client.expect(READY, 'connect');
      if (signal?.aborted) abort();
      client.position = (await ready.promise) as RingPosition;
    } catch (error) {
      await client.terminate();
      throw error;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
    return client;
  }

  /**
   * Sends a command. The process does not end while somebody awaits the promise. Earlier commands that end while the
   * thread sleeps settle afterwards.
   */
  post<Name extends CommandName>(
    name: Name,
    input: Commands[Name]['input'],
  ): AbortableTicket<Commands[Name]['result']> {
    if (this.ended !== undefined) throw this.ended;
    const request: Request = { id: this.nextId++, name, input, generation: this.position.generation };
    this.port.postMessage(request);
    return this.expect(request.id, name) as AbortableTicket<Commands[Name]['result']>;
  }

  private expect(id: number, name: string): Posted {
    const posted = new Posted(
      () => this.observer.record('wait', { call: name }, () => this.sleepFor(posted)),
      () => this.keepAlive(),
      () => this.port.postMessage({ abort: id } satisfies Abort),
    );
    this.pending.set(id, posted);
    return posted;
  }

  /** Sleeps until that command has an outcome. */
  private sleepFor(posted: Posted): void {
    let beat = Atomics.load(this.control, CONTROL.beat);
    let sleeps = 0;
    for (;;) {
      const seen = Atomics.load(this.control, CONTROL.responses);
      while (!posted.isOver) {
        const received = receiveMessageOnPort(this.port);
        if (received === undefined) break;
        this.settle(received.message as Response);
      }
      if (posted.isOver) return;
      if (Atomics.load(this.control, CONTROL.closed) === 1) throw this.ended ?? crashed('has ended');
      if (Atomics.wait(this.control, CONTROL.responses, seen, SLEEP_MS) === 'timed-out') sleeps++;
      const now = Atomics.load(this.control, CONTROL.beat);
      if (now !== beat) {
        beat = now;
        sleeps = 0;
      } else if (sleeps === MOST_SLEEPS) {
        this.end(crashed(`has not answered for ${MOST_SLEEPS * SLEEP_MS} ms`));
        throw this.ended!;
      }
    }
  }

  /** Ends the thread, and settles when it has ended. Calls that are under way fail with `ERR_CLOSED`. */
  async terminate(): Promise<void> {
    this.end(closedError());
    this.terminating = true;
    this.worker.ref();
    this.port.postMessage('leave' satisfies End);
    await this.exited;
    this.port.close();
    this.observer.close();
  }

  /**
   * Called when the process ends, perhaps by an error. The sockets must be closed first, see {@link closeAllSockets}.
   */
  private readonly abandon = (exitCode: number): void => {
    const { control, port } = this;
    const busyMs = this.ended?.code === 'ERR_COMM_THREAD' ? ABANDON_MS : BUSY_MS; // it may be dead already
    Atomics.store(control, CONTROL.exiting, 1);
    port.postMessage((exitCode === 0 ? 'leave' : 'drop') satisfies End);
    Atomics.wait(control, CONTROL.beat, 0, busyMs);
    if (Atomics.wait(control, CONTROL.closed, 0, ABANDON_MS) !== 'timed-out') return;
    port.postMessage('drop' satisfies End); // a neighbour does not take the goodbye: leave without it
    Atomics.wait(control, CONTROL.closed, 0, busyMs);
  };

  private keepAlive(): void {
    this.worker.ref();
    this.port.ref();
  }

  private settle(response: Response): void {
    const { id, result, error } = typeof response === 'number' ? { id: response } : response;
    if (id === CRASHED) return this.end(deserializeError(error!));
    const posted = this.pending.get(id);
    this.pending.delete(id);
    this.rest();
    posted?.end(error === undefined ? { result } : { error: deserializeError(error) });
  }

  /**
   * An idle communicator does not keep the process alive. One that is being closed does, even if late answers arrive.
   */
  private rest(): void {
    if (this.terminating || [...this.pending.values()].some(({ isAwaited }) => isAwaited)) return;
    this.worker.unref();
    this.port.unref();
  }

  private end(error: GradringError): void {
    this.ended ??= error;
    for (const posted of this.pending.values()) posted.end({ error: this.ended });
    this.pending.clear();
  }
}

type Outcome = { readonly result: unknown } | { readonly error: GradringError };

/** A command that was sent. */
class Posted implements AbortableTicket<unknown> {
  isAwaited = false;
  private outcome: Outcome | undefined;
  private tell: (() => void) | undefined;
  private awaited: Promise<unknown> | undefined;

  /** @param onAwait Called when the promise is asked for before the command is over. */
  constructor(
    private readonly sleepUntilOver: () => void,
    private readonly onAwait: () => void,
    /** Does nothing if the command is over. */
    readonly abort: () => void,
  ) {}

  get isOver(): boolean {
    return this.outcome !== undefined;
  }

  get promise(): Promise<unknown> {
    this.awaited ??= this.untilOver().then(() => this.result());
    return this.awaited;
  }

  private async untilOver(): Promise<void> {
    if (this.isOver) return;
    this.isAwaited = true;
    this.onAwait();
    await new Promise<void>(resolve => (this.tell = resolve));
  }

  sleep(): unknown {
    if (!this.isOver) this.sleepUntilOver();
    return this.result();
  }

  end(outcome: Outcome): void {
    this.outcome = outcome;
    this.tell?.();
  }

  private result(): unknown {
    const outcome = this.outcome!;
    if ('error' in outcome) throw outcome.error;
    return outcome.result;
  }
}

function crashed(how: string): GradringError {
  return new GradringError('ERR_COMM_THREAD', `The comm thread ${how}.`);
}
