import { protocolError } from '../wire/frame';
import { copyBytes } from './copy-bytes';
import type { Landing } from './landing';
import { FRAMES_AHEAD } from './transport';

/** A frame's head: some numbers, then its header, and nothing more up to this length. */
export const HEAD_BYTES = 96;

/** Where they lie: the length of the body, what {@link headOf} is told, the length of the header, the header. */
const AT = { body: 0, after: 4, headerBytes: 8, header: 9 } as const;

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
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32LE(bodyBytes, AT.body);
  head.writeUInt32LE(after >>> 0, AT.after);
  head.writeUInt8(header.length, AT.headerBytes);
  head.set(header, AT.header);
  return head;
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
  private readonly head = Buffer.alloc(HEAD_BYTES);
  private coming: Coming | undefined;
  /** Bytes that have come of the head, or of the body. */
  private filled = 0;
  private readonly arrived: (CarriedFrame & { readonly after: number })[] = [];
  private heldBytes = 0;
  /** What is waited for, if its body is to land. */
  private due: { readonly after: number; readonly landing: Landing } | undefined;

  /** Where the next bytes go, and how many at most. */
  place(): Uint8Array {
    if (this.coming === undefined) return this.head.subarray(this.filled);
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
    const before = this.filled;
    this.filled += count;
    if (this.coming === undefined) {
      if (this.filled < HEAD_BYTES) return false;
      this.coming = this.begin();
      this.filled = 0;
    } else if (!(this.coming.to instanceof Uint8Array)) {
      this.coming.to.advance(before, count);
    }
    const { header, after, bytes, to } = this.coming;
    if (this.filled < bytes) return false;
    const hasLanded = !(to instanceof Uint8Array);
    this.arrived.push({ header, after, body: hasLanded ? EMPTY : to, bytes, hasLanded });
    this.heldBytes += FRAME_BYTES + (hasLanded ? 0 : bytes);
    this.coming = undefined;
    this.filled = 0;
    return true;
  }

  /** Copies bytes to where they go. Returns whether they make a frame whole. */
  feed(bytes: Uint8Array): boolean {
    let isWhole = false;
    for (let at = 0; at < bytes.length;) {
      const place = this.place();
      const count = Math.min(place.length, bytes.length - at);
      copyBytes(place, bytes.subarray(at, at + count));
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

  /** The head is whole. */
  private begin(): Coming {
    const headerEnd = AT.header + this.head[AT.headerBytes]!;
    if (headerEnd > HEAD_BYTES) throw protocolError('is longer than its place');
    const header = Buffer.from(this.head.subarray(AT.header, headerEnd));
    const after = this.head.readUInt32LE(AT.after);
    const bytes = this.head.readUInt32LE(AT.body);
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
