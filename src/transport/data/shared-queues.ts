import { closeSync, constants, fstatSync, openSync, readlinkSync, symlinkSync, unlinkSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { Bell, ring } from './bell';
import { Carrier } from './carrier';
import { closed, opened } from '../control/open-sockets';
import { QUEUE_BYTES, SharedQueue } from './shared-queue';
import { type Asked, makePipe, mapFile } from './system-calls';

/** Behind both queues, some words. */
const WORDS_AT = 2 * QUEUE_BYTES;

const WORD = {
  /** 1 once the other end has opened the file. */
  opened: 0,
  /** Descriptors in the process that made the file: where its bell is rung, and where the other end hears its own. */
  toMaker: 1,
  toOpener: 2,
} as const;

/** Of memory, for a link. */
export const SHARED_QUEUES_BYTES = WORDS_AT + 64;

/** What is undone when the queues are closed, the last first. */
type Undo = (() => void)[];

/**
 * The queues of a link between processes of one host, one each way, in a file in memory, and bells to wake those who
 * wait: frames go by these, which spares them the socket's buffers, its threads, and memory made and freed for each.
 */
export class SharedQueues extends Carrier {
  readonly medium = 'shared-memory';
  readonly isDirect = true;
  readonly offer = undefined; // the file is found by its path

  private constructor(
    readonly incoming: SharedQueue,
    readonly outgoing: SharedQueue,
    private readonly bell: Bell,
    /** The pipe to the other end's bell. */
    private readonly othersBell: number,
    private readonly words: Int32Array,
    private readonly undo: Undo,
  ) {
    super();
    bell.onRing = () => this.onWake();
    opened(this);
  }

  /**
   * Makes the file, all of it. Undefined where it cannot be had, as in a container whose /dev/shm is full: all goes by
   * the socket then.
   *
   * The file itself has no name, or it would stay when this process is killed before the other end has opened it. What
   * is made at the path is a link to where the other end finds it while this process runs.
   *
   * @param hasCore Whether there is a core for each rank of this host.
   */
  static create(path: string | undefined, hasCore = true): SharedQueues | undefined {
    return attempt(path, (path, undo) => {
      const file = descriptor(openSync(path, 'wx+', 0o600), undo);
      unlinkSync(path);
      if (writeSync(file, Buffer.alloc(SHARED_QUEUES_BYTES)) < SHARED_QUEUES_BYTES)
        throw new Error('The memory is full.');
      const { first, second, words } = map(file, hasCore, undo);
      const own = makePipe();
      words[WORD.toMaker] = descriptor(own.writeEnd, undo);
      const bell = listen(own.readEnd, undo);
      const others = makePipe();
      words[WORD.toOpener] = descriptor(others.readEnd, undo);
      const othersBell = descriptor(others.writeEnd, undo);
      symlinkSync(`/proc/${process.pid}/fd/${file}`, path);
      return new SharedQueues(first, second, bell, othersBell, words, undo);
    });
  }

  /** Opens the file that the other end has made. Undefined if there is none. */
  static open(path: string | undefined, hasCore = true): SharedQueues | undefined {
    return attempt(path, (path, undo) => {
      const file = descriptor(openSync(path, 'r+'), undo);
      if (fstatSync(file).size !== SHARED_QUEUES_BYTES) throw new Error('It was made by something else.');
      const { first, second, words } = map(file, hasCore, undo);
      const descriptors = dirname(readlinkSync(path));
      const othersBell = descriptor(openPipe(`${descriptors}/${words[WORD.toMaker]}`, constants.O_WRONLY), undo);
      // For writing, too: a pipe that others alone write to ends with them, and would be closed before the queues are.
      const bell = listen(openPipe(`${descriptors}/${words[WORD.toOpener]}`, constants.O_RDWR), undo);
      Atomics.store(words, WORD.opened, 1);
      return new SharedQueues(second, first, bell, othersBell, words, undo);
    });
  }

  get canSend(): boolean {
    return this.undo.length > 0 && Atomics.load(this.words, WORD.opened) === 1;
  }

  get canReceive(): boolean {
    return this.canSend;
  }

  meet(): void {
    // It has been met by its path.
  }

  asked(): readonly Asked[] {
    return this.undo.length > 0 ? [{ file: this.bell.readEnd, for: 'input' }] : [];
  }

  sleep(forRoom: boolean): void {
    if (this.undo.length === 0) return;
    this.bell.hush(); // before both: what is rung from now on is to be heard
    this.incoming.sleep('receiver');
    if (forRoom) this.outgoing.sleep('sender');
  }

  finish(): void {
    // What was put in is there to be taken.
  }

  otherFinished(): Promise<void> {
    return Promise.resolve();
  }

  close(): void {
    closed(this);
    undoAll(this.undo);
  }

  protected sendNow(bytes: Uint8Array, more: boolean): number {
    const count = this.outgoing.write(bytes, more);
    if ((!more || count < bytes.length) && this.outgoing.claimWake('receiver')) this.ring();
    return count;
  }

  protected receiveNow(place: Uint8Array): number {
    const count = this.incoming.read(place);
    if (this.incoming.claimWake('sender')) this.ring();
    return count;
  }

  protected get isFlushed(): boolean {
    return true; // it has been copied
  }

  private ring(): void {
    if (this.undo.length > 0) ring(this.othersBell);
  }
}

function attempt(path: string | undefined, make: (path: string, undo: Undo) => SharedQueues): SharedQueues | undefined {
  if (path === undefined) return undefined;
  const undo: Undo = [];
  try {
    return make(path, undo);
  } catch {
    undoAll(undo);
    return undefined;
  }
}

function undoAll(undo: Undo): void {
  for (let last; (last = undo.pop()) !== undefined;) last();
}

function descriptor(file: number, undo: Undo): number {
  undo.push(() => closeSync(file));
  return file;
}

function listen(readEnd: number, undo: Undo): Bell {
  const bell = new Bell(readEnd);
  undo.push(() => bell.close());
  return bell;
}

function map(
  file: number,
  hasCore: boolean,
  undo: Undo,
): { first: SharedQueue; second: SharedQueue; words: Int32Array } {
  const { bytes, unmap } = mapFile(file, SHARED_QUEUES_BYTES);
  const first = new SharedQueue(bytes, 0, hasCore);
  const second = new SharedQueue(bytes, QUEUE_BYTES, hasCore);
  undo.push(
    unmap,
    () => first.close(),
    () => second.close(),
  );
  return { first, second, words: new Int32Array(bytes, WORDS_AT) };
}

function openPipe(path: string, flags: number): number {
  const file = openSync(path, flags | constants.O_NONBLOCK);
  if (fstatSync(file).isFIFO()) return file;
  closeSync(file);
  throw new Error('That is no pipe.');
}
