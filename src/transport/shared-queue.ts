import { protocolError } from '../wire/frame';
import { copyBytes } from './copy-bytes';

/** Bytes of the frames that a queue holds; a power of two. */
const CAPACITY = 2 * 1024 * 1024;

/** Entries begin, and bodies in them, at multiples of this: a line of the cache. */
const LINE = 64;

/** The largest body that a queue takes: eight of them fit, with headers of the usual size. */
export const LARGEST_BODY = CAPACITY / 8 - 2 * LINE;

const LARGEST_HEADER = 512;

/**
 * Words before the entries, each in a line of its own, so that the two ends do not take them from each other's caches.
 */
const WORD = {
  /** Bytes put in by the sender since the beginning, modulo 2³². */
  put: 0,
  /** Those of them that the receiver is done with. */
  freed: 16,
  /** 1: the receiver sleeps until it is woken. */
  receiverSleeps: 32,
  /** 1: the sender does, for want of room. */
  senderSleeps: 48,
} as const;

/** Words at the begin of an entry: its bytes in all, those of header and body, what {@link SharedQueue.put} is told. */
const ENTRY = { bytes: 0, header: 1, body: 2, after: 3, bulk: 4 } as const;
const HEADER_AT = 4 * 5;

/** The length of a header that says that there is no frame: the next lies at the begin of the memory. */
const SKIP = 0xffff_ffff;

const ENTRIES_AT = 4 * LINE;

/** Of memory, for a queue. */
export const QUEUE_BYTES = ENTRIES_AT + CAPACITY;

/** A frame in a {@link SharedQueue}. */
export interface QueuedFrame {
  readonly header: Buffer;
  /** In the shared memory, and the receiver's until it is freed. */
  readonly body: Buffer;
  /** As the sender was told to mark it. */
  readonly bulk: boolean;
}

interface Held {
  readonly bytes: number;
  done: boolean;
}

/**
 * Frames on their way from one process to another of the same host: a ring buffer in memory that both have mapped, with
 * one sender and one receiver. Nobody needs a system call, but to wake one who sleeps.
 *
 * Waking is left to its owner: an end that is about to sleep says so, looks once more, and is then to be woken by the
 * other.
 */
export class SharedQueue {
  private readonly words: Int32Array;
  private readonly entries: Buffer;
  private readonly prefixes: Uint32Array;
  /** As the words count: where the sender puts the next entry, the receiver takes one, and what that has freed. */
  private putAt = 0;
  private takenAt = 0;
  private freedAt = 0;
  /** What the receiver has taken and not freed yet, in order. */
  private readonly held: Held[] = [];
  private closed = false;

  /** @param memory Holds {@link QUEUE_BYTES} from `offset` on, all zero when the first end comes. */
  constructor(memory: ArrayBuffer, offset: number) {
    this.words = new Int32Array(memory, offset, ENTRIES_AT / 4);
    this.entries = Buffer.from(memory, offset + ENTRIES_AT, CAPACITY);
    this.prefixes = new Uint32Array(memory, offset + ENTRIES_AT, CAPACITY / 4);
  }

  /** Whether a frame is small enough. */
  static takes(header: Uint8Array, body: Uint8Array): boolean {
    return header.length <= LARGEST_HEADER && body.length <= LARGEST_BODY;
  }

  /**
   * Copies a frame in, if there is room for it.
   *
   * @param after How many frames were sent another way before this one: it is not to be taken before those.
   */
  put(header: Uint8Array, body: Uint8Array, after: number, bulk: boolean): boolean {
    if (this.closed) return false;
    const bodyAt = lines(HEADER_AT + header.length);
    const bytes = bodyAt + lines(body.length);
    const free = CAPACITY - ((this.putAt - Atomics.load(this.words, WORD.freed)) >>> 0);
    const untilEnd = CAPACITY - (this.putAt % CAPACITY);
    if (bytes > untilEnd) {
      // Entries do not go round the end: what is left there is passed over.
      if (untilEnd + bytes > free) return false;
      this.begin(untilEnd, SKIP, 0, 0, 0);
    } else if (bytes > free) {
      return false;
    }
    const at = this.begin(bytes, header.length, body.length, after, bulk ? 1 : 0);
    copyBytes(this.entries.subarray(at + HEADER_AT), header);
    copyBytes(this.entries.subarray(at + bodyAt), body);
    Atomics.store(this.words, WORD.put, this.putAt);
    return true;
  }

  /**
   * Takes the next frame, if there is one, and if `after` so many frames another way it is its turn.
   *
   * @throws GradringError `ERR_PROTOCOL` for what cannot be a frame.
   */
  take(after: number): { frame: QueuedFrame; free: () => void } | undefined {
    if (this.closed) return undefined;
    const there = (Atomics.load(this.words, WORD.put) - this.takenAt) >>> 0;
    if (there === 0) return undefined;
    const at = this.takenAt % CAPACITY;
    const word = (index: number) => this.prefixes[at / 4 + index]!;
    const bytes = word(ENTRY.bytes);
    const headerBytes = word(ENTRY.header);
    if (bytes === 0 || bytes % LINE !== 0 || bytes > there || bytes > CAPACITY - at)
      throw protocolError('lies nowhere');
    if (headerBytes === SKIP) {
      if (bytes < CAPACITY - at) throw protocolError('passes over what is no end');
      this.hold(bytes).done = true;
      return this.take(after);
    }
    const bodyAt = lines(HEADER_AT + headerBytes);
    const bodyBytes = word(ENTRY.body);
    if (headerBytes > LARGEST_HEADER || bodyBytes > bytes - bodyAt) throw protocolError('is longer than its place');
    if (word(ENTRY.after) !== after >>> 0) return undefined;
    const frame = {
      header: Buffer.from(this.entries.subarray(at + HEADER_AT, at + HEADER_AT + headerBytes)),
      body: this.entries.subarray(at + bodyAt, at + bodyAt + bodyBytes),
      bulk: word(ENTRY.bulk) === 1,
    };
    const held = this.hold(bytes);
    return { frame, free: () => this.free(held) };
  }

  /** Says that this end is about to sleep. It must look once more before it does. */
  sleep(end: 'receiver' | 'sender'): void {
    if (!this.closed) Atomics.store(this.words, WORD[`${end}Sleeps`], 1);
  }

  /** Whether the other end is to be woken, which is asked once for each time that it sleeps. */
  claimWake(end: 'receiver' | 'sender'): boolean {
    const word = WORD[`${end}Sleeps`];
    return !this.closed && Atomics.load(this.words, word) === 1 && Atomics.exchange(this.words, word, 0) === 1;
  }

  /** Nothing is put or taken any more, and the memory is not touched. */
  close(): void {
    this.closed = true;
  }

  private hold(bytes: number): Held {
    const held = { bytes, done: false };
    this.held.push(held);
    this.takenAt = (this.takenAt + bytes) >>> 0;
    return held;
  }

  /** Room is made in the order of the frames. */
  private free(held: Held): void {
    held.done = true;
    if (this.closed) return;
    while (this.held[0]?.done) this.freedAt = (this.freedAt + this.held.shift()!.bytes) >>> 0;
    Atomics.store(this.words, WORD.freed, this.freedAt);
  }

  /** Writes the begin of an entry, and returns where it lies. */
  private begin(...words: [bytes: number, header: number, body: number, after: number, bulk: number]): number {
    const at = this.putAt % CAPACITY;
    this.prefixes.set(words, at / 4);
    this.putAt = (this.putAt + words[ENTRY.bytes]) >>> 0;
    return at;
  }
}

function lines(bytes: number): number {
  return Math.ceil(bytes / LINE) * LINE;
}
