import { protocolError } from '../wire/frame';
import { LARGEST_BODY, type QueuedFrame } from './shared-queue';
import { FRAMES_AHEAD } from './transport';

/** A frame's head: some numbers, then its header, and nothing more up to this length. */
const HEAD_BYTES = 96;

/** Where they lie: the length of the body, what {@link headOf} is told, the length of the header, the header. */
const AT = { body: 0, after: 4, bulk: 8, headerBytes: 9, header: 10 } as const;

/** The longest header that fits in a head. */
export const LARGEST_HEADER = HEAD_BYTES - AT.header;

/** When frames that are not freed take so much memory, no more is read than must be. */
const HELD_BYTES = 2 * 1024 * 1024;

/** What a frame takes beside its body, about: empty ones must count, too. */
const FRAME_BYTES = 512;

/**
 * What goes before a body on a stream.
 *
 * @param after How many frames were sent another way before this one: it is not to be taken before those.
 */
export function headOf(header: Uint8Array, bodyBytes: number, after: number, bulk: boolean): Buffer {
  if (header.length > LARGEST_HEADER) throw new RangeError(`A header of ${header.length} bytes is too long.`);
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32LE(bodyBytes, AT.body);
  head.writeUInt32LE(after >>> 0, AT.after);
  head.writeUInt8(bulk ? 1 : 0, AT.bulk);
  head.writeUInt8(header.length, AT.headerBytes);
  head.set(header, AT.header);
  return head;
}

interface Arrived {
  readonly frame: QueuedFrame;
  readonly after: number;
}

/**
 * Makes frames of the bytes of a stream. Who reads the stream asks for the {@link place} of the next ones, and tells
 * how many have come there: nothing is copied.
 */
export class FrameAssembly {
  private readonly head = Buffer.alloc(HEAD_BYTES);
  /** Of the frame that is coming, once its head has come. */
  private body: Buffer | undefined;
  /** Bytes that have come of the head, or of the body. */
  private filled = 0;
  private readonly arrived: Arrived[] = [];
  private heldBytes = 0;
  /** Memory for bodies that are used where they lie, and freed then. */
  private readonly spare: Buffer[] = [];

  /** Where the next bytes go, and how many at most. */
  place(): Uint8Array {
    return (this.body ?? this.head).subarray(this.filled);
  }

  /**
   * Whether what has come should be taken and freed before more is read. Frames that collectives send ahead are always
   * read, however large: else all ranks could wait to send, and none to receive.
   */
  get isFull(): boolean {
    return this.heldBytes >= HELD_BYTES && this.arrived.length >= FRAMES_AHEAD;
  }

  /**
   * So many bytes have come at the {@link place}. Returns whether they make a frame whole.
   *
   * @throws GradringError `ERR_PROTOCOL` for what cannot be a frame.
   */
  advance(bytes: number): boolean {
    this.filled += bytes;
    if (this.body === undefined) {
      if (this.filled < HEAD_BYTES) return false;
      if (this.headerEnd > HEAD_BYTES) throw protocolError('is longer than its place');
      this.body = this.memoryFor(this.head.readUInt32LE(AT.body));
      this.filled = 0;
    }
    if (this.filled < this.body.length) return false;
    const header = Buffer.from(this.head.subarray(AT.header, this.headerEnd));
    const frame = { header, body: this.body, bulk: this.isBulk };
    this.arrived.push({ frame, after: this.head.readUInt32LE(AT.after) });
    this.heldBytes += heldBytes(this.body);
    this.body = undefined;
    this.filled = 0;
    return true;
  }

  /**
   * Takes the next frame, if it is there, and if `after` so many frames another way it is its turn. The body is the
   * taker's, if it is not bulk, and else until it is freed.
   */
  take(after: number): { frame: QueuedFrame; free: () => void } | undefined {
    if (this.arrived[0]?.after !== after >>> 0) return undefined;
    const { frame } = this.arrived.shift()!;
    return { frame, free: () => this.free(frame) };
  }

  private get isBulk(): boolean {
    return this.head[AT.bulk] === 1;
  }

  private get headerEnd(): number {
    return AT.header + this.head[AT.headerBytes]!;
  }

  private memoryFor(bytes: number): Buffer {
    try {
      if (!this.isBulk || bytes > LARGEST_BODY) return Buffer.allocUnsafeSlow(bytes);
      return (this.spare.pop() ?? Buffer.allocUnsafeSlow(LARGEST_BODY)).subarray(0, bytes);
    } catch {
      throw protocolError(`claims ${bytes} bytes, more than there is memory`);
    }
  }

  private free({ body, bulk }: QueuedFrame): void {
    this.heldBytes -= heldBytes(body);
    if (bulk && body.buffer.byteLength === LARGEST_BODY) this.spare.push(Buffer.from(body.buffer));
  }
}

function heldBytes(body: Buffer): number {
  return body.buffer.byteLength + FRAME_BYTES;
}
