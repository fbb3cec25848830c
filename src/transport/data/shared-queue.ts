import { protocolError } from '../../wire/frame';
import { copyBytes } from '../../memory/buffers';

/** Bytes that a queue holds; a power of two. */
const CAPACITY = 2 * 1024 * 1024;

/**
 * Bytes are counted modulo 2³⁰, a multiple of the capacity. V8 stores numbers from 2³¹ on as floats, and drops compiled
 * code that meets its first float.
 */
const COUNT_MASK = 2 ** 30 - 1;

/**
 * The sender wakes the receiver after this many bytes, so that it reads while the sender continues. If they share a
 * core, the receiver would take it from the sender, so it is woken when everything is written, or no more fits.
 */
const PIECE_BYTES = 256 * 1024;

/** A sender that waits is woken when there is this much room, because waking it costs as much as copying that. */
const WAKING_ROOM = CAPACITY / 4;

/**
 * Words before the bytes, each in its own cache line, so that the two ends do not take them from each other's caches.
 */
const WORD = {
  /** How many bytes the sender has written, modulo 2³⁰. */
  written: 0,
  /** How many bytes the receiver has read, modulo 2³⁰. */
  read: 16,
  /** 1: the receiver sleeps until it is woken. */
  receiverSleeps: 32,
  /** 1: the sender sleeps until it is woken, because there is no room. */
  senderSleeps: 48,
} as const;

const BYTES_AT = 4 * 64;

/** The memory that a queue takes, in bytes. */
export const QUEUE_BYTES = BYTES_AT + CAPACITY;

/**
 * Carries bytes from one process to another of the same host: a ring buffer in memory that both have mapped, with one
 * sender and one receiver. A system call is needed only to wake the other end.
 *
 * The owner of the queue does that. An end that is about to sleep says so, and looks once more. From then on the other
 * end must wake it.
 */
export class SharedQueue {
  private readonly words: Int32Array;
  private readonly bytes: Buffer;
  /** Counted as in the words. `written` may be ahead of its word; the receiver sees only what the word counts. */
  private written = 0;
  private taken = 0;
  private closed = false;
  /** See {@link PIECE_BYTES}. */
  private readonly pieceBytes: number;

  /**
   * @param memory Has {@link QUEUE_BYTES} from `offset` on, all zero before the first end is constructed.
   * @param hasCore Whether each end has a core of its own.
   */
  constructor(memory: ArrayBuffer, offset: number, hasCore = true) {
    this.pieceBytes = hasCore ? PIECE_BYTES : CAPACITY;
    this.words = new Int32Array(memory, offset, BYTES_AT / 4);
    this.bytes = Buffer.from(memory, offset + BYTES_AT, CAPACITY);
  }

  /**
   * Copies in as many bytes as there is room for, at most a piece, and returns how many.
   *
   * @param more Whether the next bytes follow at once. Then the receiver sees these together with them.
   */
  write(source: Uint8Array, more: boolean): number {
    if (this.closed) return 0;
    const room = CAPACITY - ((this.written - Atomics.load(this.words, WORD.read)) & COUNT_MASK);
    const count = Math.min(source.length, Math.max(0, room), this.pieceBytes); // room < 0 if its word is wrong
    const at = this.written & (CAPACITY - 1);
    const untilEnd = Math.min(count, CAPACITY - at);
    copyBytes(this.bytes.subarray(at, at + untilEnd), source.subarray(0, untilEnd));
    if (untilEnd < count) copyBytes(this.bytes, source.subarray(untilEnd, count));
    this.written = (this.written + count) & COUNT_MASK;
    if (!more || count < source.length) Atomics.store(this.words, WORD.written, this.written);
    return count;
  }

  /**
   * Copies out as many bytes as are there and fit, and returns how many.
   *
   * @throws GradringError `ERR_PROTOCOL` if the sender claims more bytes than the queue holds.
   */
  read(place: Uint8Array): number {
    if (this.closed) return 0;
    const there = (Atomics.load(this.words, WORD.written) - this.taken) & COUNT_MASK;
    if (there > CAPACITY) throw protocolError('claims more bytes than its queue holds');
    const count = Math.min(place.length, there);
    const at = this.taken & (CAPACITY - 1);
    const untilEnd = Math.min(count, CAPACITY - at);
    copyBytes(place, this.bytes.subarray(at, at + untilEnd));
    if (untilEnd < count) copyBytes(place.subarray(untilEnd), this.bytes.subarray(0, count - untilEnd));
    this.taken = (this.taken + count) & COUNT_MASK;
    Atomics.store(this.words, WORD.read, this.taken);
    return count;
  }

  /** Says that this end is about to sleep. It must look once more before it does. */
  sleep(end: 'receiver' | 'sender'): void {
    if (!this.closed) Atomics.store(this.words, WORD[`${end}Sleeps`], 1);
  }

  /** Whether the caller must wake that end. True only once for each time that it sleeps. */
  claimWake(end: 'receiver' | 'sender'): boolean {
    const word = WORD[`${end}Sleeps`];
    if (this.closed || Atomics.load(this.words, word) === 0) return false;
    if (end === 'sender') {
      const held = (Atomics.load(this.words, WORD.written) - this.taken) & COUNT_MASK;
      if (CAPACITY - held < WAKING_ROOM) return false;
    }
    return Atomics.exchange(this.words, word, 0) === 1;
  }

  /** From now on nothing is written or read, and the memory is not touched. */
  close(): void {
    this.closed = true;
  }
}
