import { closeSync, constants, fstatSync, openSync, readlinkSync, symlinkSync, unlinkSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { dirname } from 'node:path';
import { unregister, register } from '../control/open-sockets';
import { Lane } from './lane';
import { QUEUE_BYTES, SharedQueue } from './shared-queue';
import { closePipe, makePipe, mapFile, openPipe, type Polled, readPipe } from './system-calls';

/** A few shared words follow the two queues. */
const WORDS_AT = 2 * QUEUE_BYTES;

const WORD = {
  /** 1 once the other end has opened the file. */
  opened: 0,
  /** Descriptors in the process that made the file: for writing to its own pipe, and for reading the other end's. */
  toMaker: 1,
  toOpener: 2,
} as const;

/** The memory that a lane takes, in bytes. */
export const SHARED_MEMORY_LANE_BYTES = WORDS_AT + 64;

/** What to undo when the lane is closed, the last first. */
type Undo = (() => void)[];

/** What is written to a pipe to wake the other end, and where it is read to. */
const WAKE = Buffer.of(1);
const WAKES = Buffer.alloc(64);

/**
 * A lane between processes of one host: a file in memory that both have mapped, with a queue each way, and a pipe to
 * each end that wakes it. A frame needs no socket buffer, no other thread, and no new memory.
 */
export class SharedMemoryLane extends Lane {
  readonly medium = 'shared-memory';
  readonly isDirect = true;
  protected readonly isFlushed = true; // the queue holds a copy

  private constructor(
    private readonly incoming: SharedQueue,
    private readonly outgoing: SharedQueue,
    /** The pipe that wakes this end: where it is read, and what reads it while nobody asks. */
    private readonly wakeEnd: number,
    private readonly pipe: Socket,
    /** The pipe that wakes the other end: where it is written. */
    private readonly othersWakeEnd: number,
    private readonly words: Int32Array,
    private readonly undo: Undo,
  ) {
    super();
    this.pipe
      .on('data', () => this.woken())
      .on('error', () => undefined) // the link tells that the neighbour is gone
      .unref();
    register(this);
  }

  /**
   * Makes the file. Returns `undefined` where that is impossible, as in a container whose /dev/shm is full.
   *
   * The file has no name, or it would stay if this process were killed before the other end opens it. The path becomes
   * a symbolic link to where the other end finds the file while this process runs.
   *
   * @param hasCore Whether there is a core for each rank of this host.
   */
  static create(path: string, hasCore = true): SharedMemoryLane | undefined {
    return makeOrUndo(undo => {
      const file = openFile(path, 'wx+', undo);
      unlinkSync(path);
      if (writeSync(file, Buffer.alloc(SHARED_MEMORY_LANE_BYTES)) < SHARED_MEMORY_LANE_BYTES)
        throw new Error('The memory is full.');
      const { first, second, words } = map(file, hasCore, undo);
      const own = makePipe();
      const pipe = reader(own.readEnd, undo);
      words[WORD.toMaker] = pipeEnd(own.writeEnd, undo);
      const others = makePipe();
      words[WORD.toOpener] = pipeEnd(others.readEnd, undo);
      const othersWakeEnd = pipeEnd(others.writeEnd, undo);
      symlinkSync(`/proc/${process.pid}/fd/${file}`, path);
      return new SharedMemoryLane(first, second, own.readEnd, pipe, othersWakeEnd, words, undo);
    });
  }

  /** Opens the file that the other end has made. Returns `undefined` if there is none. */
  static open(path: string, hasCore = true): SharedMemoryLane | undefined {
    return makeOrUndo(undo => {
      const file = openFile(path, 'r+', undo);
      if (fstatSync(file).size !== SHARED_MEMORY_LANE_BYTES) throw new Error('It was made by something else.');
      const { first, second, words } = map(file, hasCore, undo);
      const descriptors = dirname(readlinkSync(path));
      const othersWakeEnd = pipeEnd(openPipe(`${descriptors}/${words[WORD.toMaker]}`, constants.O_WRONLY), undo);
      // For writing, too: a pipe ends with its last writer, and must not be closed before the lane is.
      const wakeEnd = openPipe(`${descriptors}/${words[WORD.toOpener]}`, constants.O_RDWR);
      const lane = new SharedMemoryLane(second, first, wakeEnd, reader(wakeEnd, undo), othersWakeEnd, words, undo);
      Atomics.store(words, WORD.opened, 1);
      return lane;
    });
  }

  /** The other end opens the file before it sends its greeting, so there is nothing to wait for. */
  async opened(): Promise<void> {
    if (!this.isOpen) throw new Error('The other end has not opened the shared memory.');
  }

  polled(): readonly Polled[] {
    return this.isOpen ? [{ file: this.wakeEnd, for: 'input' }] : [];
  }

  prepareToWait(): void {
    if (!this.isOpen) return;
    readPipe(this.wakeEnd, WAKES); // first: what is written from now on must wake this end
    this.incoming.sleep('receiver');
    if (this.waitsForRoom) this.outgoing.sleep('sender');
  }

  finish(): void {
    // What was sent is in the queue, where the other end can receive it.
  }

  async otherFinished(): Promise<void> {
    this.woken(); // what the other end has sent is in the queue, even if its wake has not arrived
  }

  close(): void {
    unregister(this);
    undoAll(this.undo);
  }

  protected sendNow(bytes: Uint8Array, more: boolean): number {
    const count = this.outgoing.write(bytes, more);
    if ((!more || count < bytes.length) && this.outgoing.claimWake('receiver')) this.wakeOther();
    return count;
  }

  protected receiveNow(place: Uint8Array): number {
    const count = this.incoming.read(place);
    if (this.incoming.claimWake('sender')) this.wakeOther();
    return count;
  }

  private get isOpen(): boolean {
    return this.undo.length > 0 && Atomics.load(this.words, WORD.opened) === 1;
  }

  private wakeOther(): void {
    if (this.undo.length === 0) return;
    try {
      writeSync(this.othersWakeEnd, WAKE);
    } catch {
      // The pipe is full of wakes that the other end has not read yet, or the other end is gone.
    }
  }
}

function makeOrUndo(make: (undo: Undo) => SharedMemoryLane): SharedMemoryLane | undefined {
  const undo: Undo = [];
  try {
    return make(undo);
  } catch {
    undoAll(undo);
    return undefined;
  }
}

function undoAll(undo: Undo): void {
  for (let last; (last = undo.pop()) !== undefined;) last();
}

function openFile(path: string, flags: string, undo: Undo): number {
  const file = openSync(path, flags, 0o600);
  undo.push(() => closeSync(file));
  return file;
}

/** Reads a pipe from now on, and closes it. */
function reader(end: number, undo: Undo): Socket {
  const socket = new Socket({ fd: end, readable: true, writable: false });
  undo.push(() => socket.destroy());
  return socket;
}

function pipeEnd(end: number, undo: Undo): number {
  undo.push(() => closePipe(end));
  return end;
}

function map(
  file: number,
  hasCore: boolean,
  undo: Undo,
): { first: SharedQueue; second: SharedQueue; words: Int32Array } {
  const { bytes, unmap } = mapFile(file, SHARED_MEMORY_LANE_BYTES);
  const first = new SharedQueue(bytes, 0, hasCore);
  const second = new SharedQueue(bytes, QUEUE_BYTES, hasCore);
  undo.push(
    unmap,
    () => first.close(),
    () => second.close(),
  );
  return { first, second, words: new Int32Array(bytes, WORDS_AT) };
}
