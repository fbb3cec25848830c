import { protocolError } from '../../wire/frame';
import { copyBytes } from '../../memory/copy-bytes';

/** Bytes that a queue holds; a power of two. */
const CAPACITY = 2 * 1024 * 1024;

/**
 * Bytes are counted modulo 2³⁰, a multiple of the capacity. Numbers from 2³¹ on are floats to JavaScript, and compiled
 * code that meets its first float is thrown away.
 */
const COUNT_MASK = 2 ** 30 - 1;

/**
 * What is written is told of after so many bytes, so that the receiver reads while the sender goes on. Where they share
 * a core it would take that from the sender, and is told when all is there, or no more fits.
 */
const PIECE_BYTES = 256 * 1024;

/** A sender that waits is woken when there is so much room: to be woken costs as much as to copy that. */
const WAKING_ROOM = CAPACITY / 4;

/**
 * Words before the bytes, each in a line of its own, so that the two ends do not take them from each other's caches.
 */
const WORD = {
  /** Bytes written since the beginning, modulo 2³⁰. */
  written: 0,
  /** Those of them that the receiver has read. */
  read: 16,
  /** 1: the receiver sleeps until it is woken. */
  receiverSleeps: 32,
  /** 1: the sender does, for want of room. */
  senderSleeps: 48,
} as const;

const BYTES_AT = 4 * 64;

/** Of memory, for a queue. */
export const QUEUE_BYTES = BYTES_AT + CAPACITY;

/**
 * Bytes on their way from one process to another of the same host: a ring buffer in memory that both have mapped, with
 * one sender and one receiver. Nobody needs a system call, but to wake one who sleeps.
 *
 * Waking is left to its owner: an end that is about to sleep says so, looks once more, and is then to be woken by the
 * other.
 */
export class SharedQueue {
  private readonly words: Int32Array;
  private readonly bytes: Buffer;
  /** As the words count. What is written is known to the receiver up to what the word says. */
  private written = 0;
  private taken = 0;
  private closed = false;
  /** See {@link PIECE_BYTES}. */
  private readonly pieceBytes: number;

  /**
   * @param memory Holds {@link QUEUE_BYTES} from `offset` on, all zero when the first end comes.
   * @param hasCore Whether each end has a core to itself.
   */
  constructor(memory: ArrayBuffer, offset: number, hasCore = true) {
    this.pieceBytes = hasCore ? PIECE_BYTES : CAPACITY;
    this.words = new Int32Array(memory, offset, BYTES_AT / 4);
    this.bytes = Buffer.from(memory, offset + BYTES_AT, CAPACITY);
  }

  /**
   * Copies in what there is room for, or the first piece of it, and returns how many bytes.
   *
   * @param more Whether the next bytes follow at once: the receiver is told of these with them.
   */
  write(source: Uint8Array, more: boolean): number {
    if (this.closed) return 0;
    const room = CAPACITY - ((this.written - Atomics.load(this.words, WORD.read)) & COUNT_MASK);
    const count = Math.min(source.length, Math.max(0, room), this.pieceBytes); // a receiver that lies gets nothing
    const at = this.written & (CAPACITY - 1);
    const untilEnd = Math.min(count, CAPACITY - at);
    copyBytes(this.bytes.subarray(at, at + untilEnd), source.subarray(0, untilEnd));
    if (untilEnd < count) copyBytes(this.bytes, source.subarray(untilEnd, count));
    this.written = (this.written + count) & COUNT_MASK;
    if (!more || count < source.length) Atomics.store(this.words, WORD.written, this.written);
    return count;
  }

  /**
   * Copies out what there is, as far as it fits, and returns how many bytes.
   *
   * @throws GradringError `ERR_PROTOCOL` if the sender claims more than there can be.
   */
  read(place: Uint8Array): number {
    if (this.closed) return 0;
    const there = (Atomics.load(this.words, WORD.written) - this.taken) & COUNT_MASK;
    if (there > CAPACITY) throw protocolError('lies nowhere');
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

  /** Whether the other end is to be woken, which is asked once for each time that it sleeps. */
  claimWake(end: 'receiver' | 'sender'): boolean {
    const word = WORD[`${end}Sleeps`];
    if (this.closed || Atomics.load(this.words, word) === 0) return false;
    if (end === 'sender') {
      const held = (Atomics.load(this.words, WORD.written) - this.taken) & COUNT_MASK;
      if (CAPACITY - held < WAKING_ROOM) return false;
    }
    return Atomics.exchange(this.words, word, 0) === 1;
  }

  /** Nothing is written or read any more, and the memory is not touched. */
  close(): void {
    this.closed = true;
  }
}
