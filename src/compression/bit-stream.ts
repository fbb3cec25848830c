import { GradringError } from '../errors';
import { type BitAddress, STREAM_SLACK_BYTES } from '../kernels/codec-kernels';
import type { KernelMemory } from '../kernel-memory';
import type { Kernels, Pointer } from '../kernels/kernels';

/** The most entries in a block, which are coded together. */
export const BLOCK_ENTRIES = 1024;

/** More bytes than any block takes: at most 52 bits an entry, and a header. */
const LARGEST_BLOCK_BYTES = 8 * BLOCK_ENTRIES;

const WINDOW_BYTES = 4 * LARGEST_BLOCK_BYTES;

/** Scratch of a {@link BitWriter} or {@link BitReader} in the memory of the kernels. A multiple of 16. */
export const BIT_STREAM_BYTES = WINDOW_BYTES + STREAM_SLACK_BYTES;

/**
 * Shared memory is copied word by word if source and target have the same alignment, else byte by byte, four times as
 * slow. So windows are filled and emptied in units of words.
 */
const COPIED_BYTES = 8;

/** A writer frees its memory if that is this many times as large as the last stream. */
const MOST_UNUSED = 4;

/** The error for a stream that no encoder writes. The words continue "The payload …". */
export function malformed(words: string): GradringError {
  return new GradringError('ERR_PROTOCOL', `The payload ${words}.`);
}

/**
 * Writes a stream of bits, of any length. The kernels write to a window of it, which is emptied between blocks. A
 * caller that writes more than a few bits advances `at`, and calls {@link endBlock} after each block.
 *
 * A writer makes one stream after the other in the same memory, because fresh pages cost more than writing to them.
 */
export class BitWriter {
  at: BitAddress;
  private bytes = new Uint8Array(0);
  /** How many bytes have left the window. */
  private length = 0;

  /** @param window {@link BIT_STREAM_BYTES} that belong to the writer from {@link start} to {@link finish}. */
  constructor(
    private readonly kernels: Kernels,
    private readonly memory: KernelMemory,
    private readonly window: Pointer,
  ) {
    this.at = 8 * window;
  }

  /** Starts a stream. Drops one that was not finished. */
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

  /** Pads the stream with zeros to a whole byte. Returns how many bytes it has. */
  align(): number {
    const odd = this.at % 8;
    if (odd !== 0) this.write(0, 8 - odd);
    return this.length + this.at / 8 - this.window;
  }

  /** The stream, padded with zeros to a whole byte. It is valid until the next one is written. */
  finish(): Uint8Array {
    this.align();
    this.empty(1);
    const { bytes, length } = this;
    // The streams of a few steps may be much larger than all later ones.
    if (bytes.length > MOST_UNUSED * length) this.bytes = new Uint8Array(0);
    return bytes.subarray(0, length);
  }

  /** Moves whole units of bytes from the window to the stream. */
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
    window.copyWithin(0, whole, whole + unit); // with the byte that is not complete yet
    this.at -= 8 * whole;
  }
}

/**
 * Reads a stream of bits that was received. The kernels read from a window of it. A caller calls {@link startBlock}
 * before it reads a block, and {@link advance} afterwards.
 */
export class BitReader {
  at: BitAddress;
  /** The end of the stream, or of the window. No kernel may read beyond it. */
  until: BitAddress;
  private next = 0;

  /** @param window {@link BIT_STREAM_BYTES} that belong to the reader. */
  constructor(
    private readonly kernels: Kernels,
    private readonly memory: KernelMemory,
    private readonly window: Pointer,
    private readonly stream: Uint8Array,
  ) {
    this.at = 8 * (window + (stream.byteOffset % COPIED_BYTES));
    this.until = this.at;
    this.startBlock();
  }

  /** Makes sure that the whole next block is in the window. */
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

  /** @throws ERR_PROTOCOL if `to` is past the end, or −1, which kernels return if they got there. */
  advance(to: BitAddress): void {
    if (to < 0 || to > this.until) throw malformed('ends early');
    this.at = to;
  }

  /** @throws ERR_PROTOCOL if more than the padding of the last byte is left. */
  finish(): void {
    const left = this.until - this.at;
    if (this.next < this.stream.length || left > 7 || this.read(left) !== 0) {
      throw malformed('holds more than it should');
    }
  }
}

/** Symbols that are not read yet. */
interface Waiting {
  readonly symbols: Pointer;
  readonly count: number;
  readonly parameter: number;
  readonly reader: BitReader;
}

/**
 * Reads the Rice codes of a block's indices and of its values at the same time, if it has both. This takes little more
 * time than one of them.
 */
export class RicePair {
  private waiting: Waiting | undefined;

  constructor(private readonly kernels: Kernels) {}

  /**
   * Reads the next symbols of the stream, together with those of another stream, or at {@link finish}. Until then the
   * reader must not be used.
   *
   * @throws ERR_PROTOCOL if either stream ends first.
   */
  read(symbols: Pointer, count: number, parameter: number, reader: BitReader): void {
    const first = this.waiting;
    const second = { symbols, count, parameter, reader };
    if (first === undefined) {
      this.waiting = second;
      return;
    }
    this.waiting = undefined;
    const ends = this.kernels.riceDecodeBoth(count, streamOf(first), streamOf(second));
    if (ends === undefined) throw malformed('ends early');
    first.reader.advance(ends[0]);
    second.reader.advance(ends[1]);
  }

  /** Reads the symbols of a stream that had no partner. */
  finish(): void {
    if (this.waiting === undefined) return;
    const { symbols, count, parameter, reader } = this.waiting;
    this.waiting = undefined;
    reader.advance(this.kernels.riceDecode(symbols, count, parameter, reader.at, reader.until));
  }
}

function streamOf({ symbols, parameter, reader: { at, until } }: Waiting) {
  return { symbols, parameter, from: at, until };
}
