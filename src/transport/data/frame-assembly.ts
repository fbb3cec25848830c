import { protocolError } from '../../wire/frame';
import { copyBytes } from '../../memory/copy-bytes';
import type { Landing } from './landing';
import { FRAMES_AHEAD } from '../transport';

/** A frame's head: some numbers, then its header, and nothing more up to this length. */
export const HEAD_BYTES = 96;

/** Where they lie: the length of the body, what {@link headOf} is told, the length of the header, the header. */
const AT = { body: 0, after: 4, headerBytes: 8, header: 9 } as const;

/** A body that is no longer is sent with its head, in one piece, and so much of any is read with it. */
export const SMALL_BODY = 4096;

/** The longest header that fits in a head. */
export const LARGEST_HEADER = HEAD_BYTES - AT.header;

/** When frames that are not taken hold so much memory, no more is read than must be. */
const HELD_BYTES = 2 * 1024 * 1024;

/** What a frame takes beside its body, about: empty ones must count, too. */
const FRAME_BYTES = 512;

/**
 * What goes before a body in a stream of bytes.
 *
 * @param after How many frames were sent another way before this one: it is not to be taken before those.
 */
export function headOf(header: Uint8Array, bodyBytes: number, after: number): Buffer {
  if (header.length > LARGEST_HEADER) throw new RangeError(`A header of ${header.length} bytes is too long.`);
  const head = Buffer.allocUnsafe(HEAD_BYTES).fill(0); // from the pool, as `alloc` would not be
  head.writeUInt32LE(bodyBytes, AT.body);
  head.writeUInt32LE(after >>> 0, AT.after);
  head.writeUInt8(header.length, AT.headerBytes);
  head.set(header, AT.header);
  return head;
}

/** The bytes of a frame, in as few pieces as are to be sent. See {@link headOf}. */
export function piecesOf(header: Uint8Array, body: Uint8Array, after: number): Uint8Array[] {
  const head = headOf(header, body.length, after);
  return body.length <= SMALL_BODY ? [Buffer.concat([head, body])] : [head, body];
}

/** A frame that has come, all of it. */
export interface CarriedFrame {
  readonly header: Buffer;
  /** The taker's; empty if it has landed. */
  readonly body: Buffer;
  /** Of the body, wherever that is. */
  readonly bytes: number;
  readonly hasLanded: boolean;
}

/** A frame whose head has come. */
interface Coming {
  readonly header: Buffer;
  readonly after: number;
  readonly bytes: number;
  readonly to: Buffer | Landing;
}

const EMPTY = Buffer.alloc(0);

/**
 * Makes frames of the bytes of a stream. Who reads the stream asks for the {@link place} of the next ones, and tells
 * how many have come there: nothing is copied.
 */
export class FrameAssembly {
  /** The head of the next frame, and what has come with it. */
  private readonly staged = Buffer.alloc(HEAD_BYTES + SMALL_BODY);
  private coming: Coming | undefined;
  /** Bytes that are {@link staged}, or that have come of the body. */
  private filled = 0;
  private readonly arrived: (CarriedFrame & { readonly after: number })[] = [];
  private heldBytes = 0;
  /** What is waited for, if its body is to land. */
  private due: { readonly after: number; readonly landing: Landing } | undefined;

  /** Where the next bytes go, and how many at most. */
  place(): Uint8Array {
    if (this.coming === undefined) return this.staged.subarray(this.filled);
    const { to } = this.coming;
    return to instanceof Uint8Array ? to.subarray(this.filled) : to.place(this.filled);
  }

  /** Whether no frame is there to be taken, in its turn or out of it. */
  get isEmpty(): boolean {
    return this.arrived.length === 0;
  }

  /**
   * Whether what has come should be taken before more is read. Frames that collectives send ahead are always read,
   * however large: else all ranks could wait to send, and none to receive.
   */
  get isFull(): boolean {
    return this.heldBytes >= HELD_BYTES && this.arrived.length >= FRAMES_AHEAD;
  }

  /**
   * So many bytes have come at the {@link place}. Returns whether they make a frame whole.
   *
   * @throws GradringError `ERR_PROTOCOL` for what cannot be a frame.
   */
  advance(count: number): boolean {
    if (this.coming !== undefined) return this.advanceBody(this.coming, count);
    const { staged } = this;
    const end = this.filled + count;
    let at = 0;
    let isWhole = false;
    while (end - at >= HEAD_BYTES) {
      this.filled = 0;
      this.coming = this.begin(staged.subarray(at, at + HEAD_BYTES));
      at += HEAD_BYTES;
      isWhole = this.advanceBody(this.coming, 0) || isWhole; // it may be empty
      while (this.coming !== undefined && at < end) {
        const length = this.fill(staged.subarray(at, end));
        isWhole = this.advanceBody(this.coming, length) || isWhole;
        at += length;
      }
    }
    if (this.coming === undefined) {
      staged.copyWithin(0, at, end);
      this.filled = end - at;
    }
    return isWhole;
  }

  /** Copies bytes to where they go. Returns whether they make a frame whole. */
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
   * Takes the next frame, if it is there, and if `after` so many frames another way it is its turn.
   *
   * @param landing Where its body may go if it has not begun to come; until it is taken.
   */
  take(after: number, landing?: Landing): CarriedFrame | undefined {
    this.due = undefined;
    if (this.arrived[0]?.after === after >>> 0) {
      const taken = this.arrived.shift()!;
      this.heldBytes -= FRAME_BYTES + taken.body.length;
      return taken;
    }
    if (landing !== undefined && this.arrived.length === 0) this.due = { after: after >>> 0, landing };
    return undefined;
  }

  /** Nothing lands any more. */
  forget(): void {
    this.due = undefined;
    if (this.coming === undefined || this.coming.to instanceof Uint8Array) return;
    this.coming = { ...this.coming, to: memoryFor(this.coming.bytes) };
  }

  /** Copies bytes to the {@link place}, as many as go there, and returns how many. */
  private fill(bytes: Uint8Array): number {
    const place = this.place();
    const count = Math.min(place.length, bytes.length);
    copyBytes(place.subarray(0, count), bytes.subarray(0, count));
    return count;
  }

  /** So many more bytes of the body have come. Returns whether that is all of it. */
  private advanceBody({ header, after, bytes, to }: Coming, count: number): boolean {
    const hasLanded = !(to instanceof Uint8Array);
    if (hasLanded && count > 0) to.advance(this.filled, count);
    this.filled += count;
    if (this.filled < bytes) return false;
    this.arrived.push({ header, after, body: hasLanded ? EMPTY : to, bytes, hasLanded });
    this.heldBytes += FRAME_BYTES + (hasLanded ? 0 : bytes);
    this.coming = undefined;
    this.filled = 0;
    return true;
  }

  /** The head is whole. */
  private begin(head: Buffer): Coming {
    const headerEnd = AT.header + head[AT.headerBytes]!;
    if (headerEnd > HEAD_BYTES) throw protocolError('is longer than its place');
    const header = Buffer.from(head.subarray(AT.header, headerEnd));
    const after = head.readUInt32LE(AT.after);
    const bytes = head.readUInt32LE(AT.body);
    const { due } = this;
    const lands = this.arrived.length === 0 && due?.after === after && due.landing.bytes === bytes;
    return { header, after, bytes, to: lands && bytes > 0 ? due.landing : memoryFor(bytes) };
  }
}

function memoryFor(bytes: number): Buffer {
  try {
    return Buffer.allocUnsafeSlow(bytes);
  } catch {
    throw protocolError(`claims ${bytes} bytes, more than there is memory`);
  }
}
