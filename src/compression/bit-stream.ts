import { GradringError } from '../errors';
import { type BitAddress, STREAM_SLACK_BYTES } from '../kernels/codec-kernels';
import type { Kernels, Pointer } from '../kernels/kernels';

/** Entries that are coded together: what a block of either codec holds at most. */
export const BLOCK_ENTRIES = 1024;

/** More bytes than any block takes: 52 bits an entry, and what stands before them. */
const LARGEST_BLOCK_BYTES = 8 * BLOCK_ENTRIES;

const WINDOW_BYTES = 4 * LARGEST_BLOCK_BYTES;

/** Scratch of a {@link BitWriter} or {@link BitReader} in the memory that the kernels see. */
export const BIT_STREAM_BYTES = WINDOW_BYTES + STREAM_SLACK_BYTES;

/**
 * Shared memory is copied word by word where source and target lie alike in their words, but else byte by byte, which
 * takes four times as long. So windows are filled and emptied in units of words.
 */
const COPIED_BYTES = 8;

/** A writer does not keep memory that is so many times as large as the stream it made last. */
const MOST_UNUSED = 4;

/** The error for a stream that no encoder writes. The words go on "The payload …". */
export function malformed(words: string): GradringError {
  return new GradringError('ERR_PROTOCOL', `The payload ${words}.`);
}

/**
 * A stream of bits under construction, of any length: the kernels write a window of it, which is emptied between
 * blocks. Whoever writes more than a few bits moves `at` on, and calls {@link endBlock} after each block.
 *
 * A writer makes one stream after the other, in the same memory: pages that are fresh cost more than writing to them.
 */
export class BitWriter {
  at: BitAddress;
  private bytes = new Uint8Array(0);
  private length = 0;

  /** @param window {@link BIT_STREAM_BYTES} that belong to the writer from {@link start} to {@link finish}. */
  constructor(
    private readonly kernels: Kernels,
    private readonly memory: WebAssembly.Memory,
    private readonly window: Pointer,
  ) {
    this.at = 8 * window;
  }

  /** Starts a stream. What was written and not finished is dropped. */
  start(): void {
    this.at = 8 * this.window;
    this.length = 0;
  }

  write(value: number, width: number): void {
    this.at = this.kernels.writeBits(value, width, this.at);
  }

  endBlock(): void {
    if (this.at > 8 * (this.window + WINDOW_BYTES - LARGEST_BLOCK_BYTES)) this.empty(COPIED_BYTES);
  }

  /** The stream, filled up with zeros to a whole byte. It is valid until the next one is written. */
  finish(): Uint8Array {
    const odd = this.at % 8;
    if (odd !== 0) this.write(0, 8 - odd);
    this.empty(1);
    const { bytes, length } = this;
    // Streams of a few steps may be much larger than those of all later ones.
    if (bytes.length > MOST_UNUSED * length) this.bytes = new Uint8Array(0);
    return bytes.subarray(0, length);
  }

  /** Takes from the window as many bytes as there are whole units of them. */
  private empty(unit: number): void {
    const whole = unit * Math.floor((this.at / 8 - this.window) / unit);
    if (this.length + whole > this.bytes.length) {
      const larger = new Uint8Array(Math.max(2 * this.bytes.length, this.length + whole));
      larger.set(this.bytes.subarray(0, this.length));
      this.bytes = larger;
    }
    const window = new Uint8Array(this.memory.buffer, this.window, WINDOW_BYTES);
    this.bytes.set(window.subarray(0, whole), this.length);
    this.length += whole;
    window.copyWithin(0, whole, whole + unit); // with the byte that is not whole yet
    this.at -= 8 * whole;
  }
}

/**
 * Reads a stream of bits that came from outside: the kernels see a window of it. Whoever reads a block calls
 * {@link startBlock} before, and moves on with {@link advance} after.
 */
export class BitReader {
  at: BitAddress;
  /** Where the stream ends, or the window: no kernel may read on from there. */
  until: BitAddress;
  private next = 0;

  /** @param window {@link BIT_STREAM_BYTES} that belong to the reader. */
  constructor(
    private readonly kernels: Kernels,
    private readonly memory: WebAssembly.Memory,
    private readonly window: Pointer,
    private readonly stream: Uint8Array,
  ) {
    this.at = 8 * (window + (stream.byteOffset % COPIED_BYTES));
    this.until = this.at;
    this.startBlock();
  }

  /** Sees to it that the whole of the next block is in the window. */
  startBlock(): void {
    if (this.next === this.stream.length || this.at + 8 * LARGEST_BLOCK_BYTES <= this.until) return;
    const bytes = new Uint8Array(this.memory.buffer, this.window, WINDOW_BYTES);
    const read = COPIED_BYTES * Math.floor((this.at / 8 - this.window) / COPIED_BYTES);
    const kept = this.until / 8 - this.window - read;
    bytes.copyWithin(0, read, read + kept);
    const added = Math.min(WINDOW_BYTES - kept, this.stream.length - this.next);
    bytes.set(this.stream.subarray(this.next, this.next + added), kept);
    this.next += added;
    this.at -= 8 * read;
    this.until = 8 * (this.window + kept + added);
  }

  /** @throws ERR_PROTOCOL at the end of the stream. */
  read(width: number): number {
    const from = this.at;
    this.advance(from + width);
    return this.kernels.readBits(width, from);
  }

  /** @throws ERR_PROTOCOL if that is past the end, or −1, with which kernels say so. */
  advance(to: BitAddress): void {
    if (to < 0 || to > this.until) throw malformed('ends early');
    this.at = to;
  }

  /** @throws ERR_PROTOCOL if more than the filling of the last byte is left. */
  finish(): void {
    const left = this.until - this.at;
    if (this.next < this.stream.length || left > 7 || this.read(left) !== 0) {
      throw malformed('holds more than it should');
    }
  }
}
