import { isMainThread, MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { requireRoomForThread } from '../address-space';
import { SCRATCH_BYTES } from '../collectives/collective-call';
import { deserializeError, GradringError } from '../errors';
import { ownFile } from '../own-file';
import { thisProcess } from '../this-process';
import { recorded, Timeline } from '../timeline/timeline';
import { createTimelineFile } from '../timeline/timeline-file';
import type { TrafficCount } from '../transport/transport';
import type { ConnectOptions } from '../rendezvous/connect-options';
import type { SharedHeap } from '../memory/shared-heap';
import {
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

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: GradringError) => void;
}

/** How long the main thread sleeps at a time. */
const SLEEP_MS = 1_000;

/**
 * If the comm thread's event loop has not turned while the main thread has slept so often, it counts as crashed. Sleeps
 * are counted, not time: a process that was stopped has slept once.
 */
const MOST_SLEEPS = 60;

/** How long the end of the process waits until the comm thread has said goodbye. */
const ABANDON_MS = 3_000;

/** How long it waits until a comm thread that is starting, or in a long computation, has closed its sockets. */
const BUSY_MS = 30_000;

/**
 * The main thread's end of the connection to the comm thread. The main thread may await a command, or sleep until it is
 * done. In both cases the comm thread continues, and keeps the links alive.
 */
export class ThreadClient {
  private readonly pending = new Map<number, Pending>();
  private nextId = READY + 1;
  private ended: GradringError | undefined;
  /** This rank's position in the ring that this thread knows of. */
  position: RingPosition = { rank: 0, worldSize: 1, generation: 0 };
  private terminating = false;
  private readonly exited: Promise<void>;

  private constructor(
    private readonly worker: Worker,
    private readonly port: MessagePort,
    private readonly control: Int32Array,
    private readonly sharedTraffic: Float64Array,
    /** This thread's timeline, if it records one. */
    readonly timeline: Timeline | undefined,
  ) {
    port.on('message', (response: Response) => this.settle(response));
    worker.on('error', error => this.end(crashed(`failed: ${(error as Error).stack}`)));
    this.exited = new Promise(resolve => {
      worker.on('exit', () => {
        thisProcess.removeListener('exit', this.abandon);
        this.end(crashed('has ended'));
        resolve();
      });
    });
    thisProcess.on('exit', this.abandon);
    this.rest();
  }

  /**
   * Starts the thread and waits for the ring.
   *
   * @throws GradringError `ERR_BUNDLED`, `ERR_TIMELINE`, `ERR_OUT_OF_MEMORY`, and what forming the ring may throw.
   */
  static async start(options: ConnectOptions, heap: SharedHeap): Promise<ThreadClient> {
    requireRoomForThread();
    const { rank, worldSize } = options;
    const file = options.timeline === undefined ? undefined : createTimelineFile(options.timeline, rank, worldSize);
    const timeline = file && new Timeline(file, 'training');
    const { port1, port2 } = new MessageChannel();
    const control = new Int32Array(new SharedArrayBuffer(CONTROL.words * 4));
    const scratch = heap.allocate(SCRATCH_BYTES);
    const traffic = new Float64Array(new SharedArrayBuffer(16));
    const shared = { memory: heap.memory, scratch, control, traffic };
    const data: ThreadData = { options, timeline: file, port: port2, ...shared };
    const program = isMainThread ? 'comm-thread.js' : 'sheltered-thread.js';
    const worker = new Worker(ownFile(`comm-thread/${program}`), {
      workerData: data,
      transferList: [port2],
    });
    const client = new ThreadClient(worker, port1, control, traffic, timeline);
    try {
      client.position = (await client.register(READY)) as RingPosition;
    } catch (error) {
      await client.terminate();
      throw error;
    }
    return client;
  }

  /** Traffic up to the last answer. */
  get traffic(): TrafficCount {
    return { bytesSent: this.sharedTraffic[0]!, bytesReceived: this.sharedTraffic[1]! };
  }

  /** Sends a command, and awaits the answer. The process does not end while the answer is pending. */
  async call<Name extends CommandName>(name: Name, input: Commands[Name]['input']): Promise<Commands[Name]['result']> {
    const request = this.request(name, input);
    this.port.postMessage(request);
    return this.register(request.id) as Promise<Commands[Name]['result']>;
  }

  /** Sends a command, and sleeps until the answer arrives. Earlier calls that end meanwhile settle afterwards. */
  callSync<Name extends CommandName>(name: Name, input: Commands[Name]['input']): Commands[Name]['result'] {
    const request = this.request(name, input);
    this.port.postMessage(request);
    return recorded(this.timeline, 'wait', { call: name }, () => this.sleepFor(request.id)) as Commands[Name]['result'];
  }

  /** Sleeps until that request has a result, and returns it. */
  private sleepFor(id: number): unknown {
    let beat = Atomics.load(this.control, CONTROL.beat);
    let sleeps = 0;
    for (;;) {
      const seen = Atomics.load(this.control, CONTROL.responses);
      let received;
      while ((received = receiveMessageOnPort(this.port)) !== undefined) {
        const response = received.message as Response;
        if (response === id) return undefined;
        if (typeof response === 'number' || response.id !== id) {
          this.settle(response);
          continue;
        }
        if (response.error !== undefined) throw deserializeError(response.error);
        return response.result;
      }
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
    this.end(new GradringError('ERR_CLOSED', 'The communicator was closed.'));
    this.terminating = true;
    this.worker.ref();
    this.port.postMessage('leave' satisfies End);
    await this.exited;
    this.port.close();
    this.timeline?.close();
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

  private request(name: CommandName, input: unknown): Request {
    if (this.ended !== undefined) throw this.ended;
    return { id: this.nextId++, name, input, generation: this.position.generation };
  }

  private register(id: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject });
      this.worker.ref();
      this.port.ref();
    });
  }

  private settle(response: Response): void {
    const { id, result, error } = typeof response === 'number' ? { id: response } : response;
    if (id === CRASHED) return this.end(deserializeError(error!));
    const pending = this.pending.get(id);
    this.pending.delete(id);
    this.rest();
    if (error !== undefined) pending?.reject(deserializeError(error));
    else pending?.resolve(result);
  }

  /**
   * An idle communicator does not keep the process alive. One that is being closed does, even if late answers arrive.
   */
  private rest(): void {
    if (this.pending.size > 0 || this.terminating) return;
    this.worker.unref();
    this.port.unref();
  }

  private end(error: GradringError): void {
    this.ended ??= error;
    for (const { reject } of this.pending.values()) reject(this.ended);
    this.pending.clear();
  }
}

function crashed(how: string): GradringError {
  return new GradringError('ERR_COMM_THREAD', `The comm thread ${how}.`);
}
