import { copyBytes } from '../../memory/buffers';
import { protocolError } from '../../wire/frame';
import { type DataFrame, FRAMES_AHEAD } from '../transport';
import type { Landing } from './landing';

/** The length of a frame's head: two lengths, the header, and padding. */
export const HEAD_BYTES = 96;

/** The offsets in a head of the body's length, the header's length, and the header. */
const AT = { bodyBytes: 0, headerBytes: 4, header: 5 } as const;

/** A body of up to this many bytes is sent in one piece with its head, and may be read in one piece with it. */
const SMALL_BODY = 4096;

/** The longest header that fits in a head. */
export const LARGEST_HEADER = HEAD_BYTES - AT.header;

/** When frames that no call has taken yet hold this much memory, nothing more is read ahead. */
const HELD_BYTES = 2 * 1024 * 1024;

/** Roughly the memory that a frame takes beside its body. Empty frames must count, too. */
const FRAME_BYTES = 512;

/** The head that goes before a body in a stream of bytes. */
export function headOf(header: Uint8Array, bodyBytes: number): Buffer {
  if (header.length > LARGEST_HEADER) throw new RangeError(`A header of ${header.length} bytes is too long.`);
  const head = Buffer.allocUnsafe(HEAD_BYTES).fill(0); // `alloc` would not use the pool
  head.writeUInt32LE(bodyBytes, AT.bodyBytes);
  head.writeUInt8(header.length, AT.headerBytes);
  head.set(header, AT.header);
  return head;
}

/** The bytes of a frame, in as few pieces as possible. */
export function piecesOf(header: Uint8Array, body: Uint8Array): Uint8Array[] {
  const head = headOf(header, body.length);
  return body.length <= SMALL_BODY ? [Buffer.concat([head, body])] : [head, body];
}

/** A frame that has arrived completely from a stream of bytes. Its body is owned by the caller that takes it. */
export type AssembledFrame = Omit<DataFrame, 'header'>;

/** A frame whose head has arrived, but not all of its body. */
interface PartialFrame {
  readonly headerBytes: Buffer;
  readonly bytes: number;
  readonly to: Buffer | Landing;
}

const EMPTY = Buffer.alloc(0);

/**
 * Makes frames of the bytes of a stream. The reader of the stream asks for the {@link place} of the next bytes, puts
 * them there, and says how many they are. So nothing is copied.
 */
export class FrameAssembly {
  /** Holds the head of the next frame, and the bytes that arrive with it. */
  private readonly headBuffer = Buffer.alloc(HEAD_BYTES + SMALL_BODY);
  private partial: PartialFrame | undefined;
  /** How many bytes are in the {@link headBuffer}, or have arrived of the partial frame's body. */
  private filled = 0;
  private readonly arrived: AssembledFrame[] = [];
  private heldBytes = 0;
  /** Where the body of the next frame may go. */
  private landing: Landing | undefined;

  /** Where the next bytes go. Its length is how many fit. */
  place(): Uint8Array {
    if (this.partial === undefined) return this.headBuffer.subarray(this.filled);
    const { to } = this.partial;
    return to instanceof Uint8Array ? to.subarray(this.filled) : to.place(this.filled);
  }

  /**
   * Whether frames should be taken before more is read. The frames that collectives send ahead are always read, however
   * large. Otherwise all ranks could wait to send, and none would receive.
   */
  get isFull(): boolean {
    return this.heldBytes >= HELD_BYTES && this.arrived.length >= FRAMES_AHEAD;
  }

  /**
   * Says that `count` bytes are at the {@link place}. Returns whether they complete a frame.
   *
   * @throws GradringError `ERR_PROTOCOL` for bytes that cannot be a frame.
   */
  advance(count: number): boolean {
    if (this.partial !== undefined) return this.advanceBody(this.partial, count);
    const { headBuffer } = this;
    const end = this.filled + count;
    let at = 0;
    let isWhole = false;
    while (end - at >= HEAD_BYTES) {
      this.filled = 0;
      this.partial = this.begin(headBuffer.subarray(at, at + HEAD_BYTES));
      at += HEAD_BYTES;
      isWhole = this.advanceBody(this.partial, 0) || isWhole; // it may be empty
      while (this.partial !== undefined && at < end) {
        const length = this.fill(headBuffer.subarray(at, end));
        isWhole = this.advanceBody(this.partial, length) || isWhole;
        at += length;
      }
    }
    if (this.partial === undefined) {
      headBuffer.copyWithin(0, at, end);
      this.filled = end - at;
    }
    return isWhole;
  }

  /** Copies bytes to their places. Returns whether they complete a frame. */
  feed(bytes: Uint8Array): boolean {
    let isWhole = false;
    for (let at = 0; at < bytes.length;) {
      const count = this.fill(bytes.subarray(at));
      isWhole = this.advance(count) || isWhole;
      at += count;
    }
    return isWhole;
  }

  /**
   * Takes the next frame, if it is complete.
   *
   * @param landing Where its body may go if its head is still to come. It is used until the frame is taken.
   */
  take(landing?: Landing): AssembledFrame | undefined {
    const frame = this.arrived.shift();
    this.landing = frame === undefined ? landing : undefined;
    if (frame !== undefined) this.heldBytes -= FRAME_BYTES + frame.body.length;
    return frame;
  }

  /** From now on no body lands. The bytes of a body that have already landed are lost. */
  forgetLanding(): void {
    this.landing = undefined;
    if (this.partial === undefined || this.partial.to instanceof Uint8Array) return;
    this.partial = { ...this.partial, to: memoryFor(this.partial.bytes) };
  }

  /** Copies bytes to the {@link place}, as many as fit, and returns how many. */
  private fill(bytes: Uint8Array): number {
    const place = this.place();
    const count = Math.min(place.length, bytes.length);
    copyBytes(place.subarray(0, count), bytes.subarray(0, count));
    return count;
  }

  /** `count` more bytes of the body have arrived. Returns whether the frame is complete. */
  private advanceBody({ headerBytes, bytes, to }: PartialFrame, count: number): boolean {
    const hasLanded = !(to instanceof Uint8Array);
    if (hasLanded && count > 0) to.advance(this.filled, count);
    this.filled += count;
    if (this.filled < bytes) return false;
    this.arrived.push({ headerBytes, body: hasLanded ? EMPTY : to, bytes, hasLanded });
    this.heldBytes += FRAME_BYTES + (hasLanded ? 0 : bytes);
    this.partial = undefined;
    this.filled = 0;
    return true;
  }

  /** Begins a frame whose head is complete. */
  private begin(head: Buffer): PartialFrame {
    const headerEnd = AT.header + head[AT.headerBytes]!;
    if (headerEnd > HEAD_BYTES) throw protocolError('has a header that is longer than its head');
    const headerBytes = Buffer.from(head.subarray(AT.header, headerEnd));
    const bytes = head.readUInt32LE(AT.bodyBytes);
    const { landing } = this;
    const lands = bytes > 0 && this.arrived.length === 0 && landing?.bytes === bytes;
    return { headerBytes, bytes, to: lands ? landing : memoryFor(bytes) };
  }
}

function memoryFor(bytes: number): Buffer {
  try {
    return Buffer.allocUnsafeSlow(bytes);
  } catch {
    throw protocolError(`claims a body of ${bytes} bytes, more than can be allocated`);
  }
}
