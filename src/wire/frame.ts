import { isIP } from 'node:net';
import { crc32 } from 'node:zlib';
import * as flatbuffers from 'flatbuffers';
import { attempt } from '../attempt';
import { type ErrorDetails, GradringError, readError, type SerializedError } from '../errors';
import { isBetween, isOptional, isText, isWith } from '../shape';
import { Frame as FrameTable } from './generated/frame';
import { FrameHeader } from './generated/frame-header';
import { FrameKind } from './generated/frame-kind';
import { Operation } from './generated/operation';
import { Purpose } from './generated/purpose';
import { createMail, type Mail, MailStep, readMail } from './mail';
import { isRankStatus, type RankStatus } from './rank-status';

export { FrameKind, type Mail, MailStep, Operation, Purpose };

/** Increased with every change of the wire that an older peer would misread. */
export const PROTOCOL_VERSION = 29;

/** The element types. On the wire each is its position in this list. */
export const ELEMENT_TYPES = [
  'none',
  'float32',
  'float64',
  'int32',
  'uint8',
  'int64',
  'uint64',
  'float16',
  'bfloat16',
  'uint16',
] as const;
/** The reductions. On the wire each is its position in this list. */
export const REDUCTIONS = ['none', 'sum', 'mean', 'min', 'max', 'product'] as const;

/**
 * What a rank says about the collective it called. It must be equal on all ranks, or the collective fails with
 * `ERR_COLLECTIVE_MISMATCH`.
 */
export interface CallFingerprint {
  readonly operation: Operation;
  /** What the call is for. */
  readonly purpose: Purpose;
  readonly elementType: (typeof ELEMENT_TYPES)[number];
  readonly reduction: (typeof REDUCTIONS)[number];
  /** Elements of the whole array on each rank; 0 if ranks may differ. */
  readonly elementCount: number;
  /**
   * What else must be equal: the root of a broadcast; for an all-gather 1 if lengths may differ; for an exchange a hash
   * of its model, options and settings.
   */
  readonly parameter: number;
}

/** A {@link FrameKind.Data} frame's header, decoded and checked. */
export interface DataHeader extends CallFingerprint {
  readonly kind: FrameKind.Data;
  /** Number of the collective. */
  readonly sequence: number;
  /** Number of the frame within the collective, on this link. */
  readonly part: number;
  /** The rank that made the body. */
  readonly origin: number;
  /** CRC-32 of the body, or 0 for bodies without one. */
  readonly checksum: number;
}

/**
 * A {@link FrameKind.Status} frame: what its origin is doing. The operation is `None` if it has called no collective
 * yet.
 */
export interface StatusHeader extends CallFingerprint, RankStatus {
  readonly kind: FrameKind.Status;
  readonly origin: number;
  /** Number of the collective. */
  readonly sequence: number;
}

/** A {@link FrameKind.Mail} frame: part of a message from one rank to another, or about one. */
export interface MailHeader extends Mail {
  readonly kind: FrameKind.Mail;
  /** The rank that made the frame. */
  readonly origin: number;
  /** What the message consists of, in a {@link MailStep.Part}. */
  readonly elementType: CallFingerprint['elementType'];
  /** The number of the part, in a {@link MailStep.Part} and a {@link MailStep.Taken}. */
  readonly part: number;
}

/** The first part of any frame, decoded and checked. */
export type Header =
  | DataHeader
  | StatusHeader
  | MailHeader
  | { readonly kind: FrameKind.Goodbye | FrameKind.Seen; readonly origin: number }
  | ({ readonly kind: FrameKind.Hello; readonly origin: number } & Greeting)
  /** The origin is the rank that found something wrong, not one that forwards it. */
  | { readonly kind: FrameKind.Abort; readonly origin: number; readonly error: SerializedError };

/** What a rank says of itself when it greets a neighbour. */
export interface Greeting {
  /** The id of its process. */
  readonly pid: number;
  /** What the other end must know to connect the lane, if this end listens. */
  readonly offer?: Offer | undefined;
}

/** Where a rank listens for the neighbour's end of a lane, and what the neighbour must show there. */
export interface Offer {
  readonly host: string;
  readonly port: number;
  /** Hexadecimal digits. */
  readonly token: string;
}

/** The most bytes in the first part of a message: the longest error takes that many. */
const LARGEST_FIRST_PART = 128 * 1024;

/** The ring that a frame belongs to. Every sent frame has it, and every received frame must have it. */
export interface RingIdentity {
  readonly ringId: bigint;
  readonly generation: number;
  readonly worldSize: number;
}

/** The first part of a message. The builder's memory is new each time, so the result may be kept and sent. */
export function encodeHeader(ring: RingIdentity, header: Header): Uint8Array {
  const builder = new flatbuffers.Builder(128);
  const said = textOf(header);
  const text = said === undefined ? 0 : builder.createString(JSON.stringify(said));
  const data = header.kind === FrameKind.Data ? header : undefined;
  const mail = header.kind === FrameKind.Mail ? header : undefined;
  const call = header.kind === FrameKind.Status ? header : data;
  FrameTable.startFrame(builder);
  FrameTable.addHeader(
    builder,
    FrameHeader.createFrameHeader(
      builder,
      ring.ringId,
      BigInt(call?.sequence ?? 0),
      BigInt(call?.elementCount ?? 0),
      call?.parameter ?? 0,
      ring.generation,
      (data ?? mail)?.part ?? 0,
      data?.checksum ?? 0,
      header.origin,
      PROTOCOL_VERSION,
      header.kind,
      call?.operation ?? Operation.None,
      ELEMENT_TYPES.indexOf((call ?? mail)?.elementType ?? 'none'),
      REDUCTIONS.indexOf(call?.reduction ?? 'none'),
      call?.purpose ?? Purpose.Call,
    ),
  );
  if (text !== 0) FrameTable.addText(builder, text);
  if (mail !== undefined) FrameTable.addMail(builder, createMail(builder, mail));
  FrameTable.finishFrameBuffer(builder, FrameTable.endFrame(builder));
  return builder.asUint8Array();
}

/** The part of a header that is sent as JSON. */
function textOf(header: Header): unknown {
  switch (header.kind) {
    case FrameKind.Abort:
      return header.error;
    case FrameKind.Hello:
      return { pid: header.pid, offer: header.offer };
    case FrameKind.Status: {
      const { isCalling, sinceMs, step, settings, round, asks } = header;
      return { isCalling, sinceMs: Math.round(sinceMs), step, settings, round, asks };
    }
    default:
      return undefined;
  }
}

/**
 * Decodes and checks the first part of a message.
 *
 * @throws GradringError `ERR_PROTOCOL` for bytes that are not a header of this protocol, ring and generation.
 */
export function decodeHeader(ring: RingIdentity, bytes: Uint8Array): Header {
  if (bytes.length > LARGEST_FIRST_PART) throw protocolError(`has a header of ${bytes.length} bytes`);
  const frame = checkedRoot(bytes, 'frame header', buffer => FrameTable.getRootAsFrame(buffer));
  const header = checked('frame header', () => {
    const struct = frame.header();
    if (struct === null || struct.bb_pos + FrameHeader.sizeOf() > bytes.length)
      throw new RangeError('header cut short');
    return struct;
  });
  if (header.protocolVersion() !== PROTOCOL_VERSION) {
    throw protocolError(
      `has protocol version ${header.protocolVersion()}, but this rank has version ${PROTOCOL_VERSION}`,
    );
  }
  if (header.ringId() !== ring.ringId) throw protocolError('belongs to another ring');
  if (header.generation() !== ring.generation) {
    throw protocolError(`is of generation ${header.generation()}, but the ring is of generation ${ring.generation}`);
  }
  const origin = header.origin();
  if (origin >= ring.worldSize) throw protocolError(`claims rank ${origin} in a ring of ${ring.worldSize}`);
  const kind = header.kind();
  switch (kind) {
    case FrameKind.Hello:
      return { kind, origin, ...decodeGreeting(checked('greeting', () => frame.text())) };
    case FrameKind.Goodbye:
    case FrameKind.Seen:
      return { kind, origin };
    case FrameKind.Abort:
      return { kind, origin, error: decodeError(checked('abort text', () => frame.text())) };
    case FrameKind.Data: {
      const call = readCall(header);
      return { kind, origin, ...call, part: header.part(), checksum: header.checksum() };
    }
    case FrameKind.Status: {
      const status = parsed(checked('status', () => frame.text()));
      if (!isRankStatus(status)) throw protocolError('holds no valid status');
      return { ...status, kind, origin, ...readCall(header) }; // in this order: JSON may have other members, too
    }
    case FrameKind.Mail: {
      const { elementType } = readCall(header);
      const mail = checked('message', () => readMail(frame, bytes.length, ring.worldSize));
      if (mail.destination === origin) throw protocolError(`of rank ${origin} is for the same rank`);
      return { kind, origin, elementType, part: header.part(), ...mail };
    }
    default:
      throw protocolError(`is of unknown kind ${String(kind)}`);
  }
}

/** The call that a header is about. */
function readCall(header: FrameHeader): CallFingerprint & { sequence: number } {
  const operation = header.operation();
  const purpose = header.purpose();
  const elementType = ELEMENT_TYPES[header.elementType()];
  const reduction = REDUCTIONS[header.reduction()];
  if (elementType === undefined || reduction === undefined || Operation[operation] === undefined) {
    throw protocolError('names an operation, element type or reduction that does not exist');
  }
  if (Purpose[purpose] === undefined) throw protocolError('names a purpose that does not exist');
  const sequence = Number(header.sequence());
  const elementCount = Number(header.elementCount());
  if (!Number.isSafeInteger(sequence) || !Number.isSafeInteger(elementCount))
    throw protocolError('has a number above 2^53');
  return { sequence, operation, purpose, elementType, reduction, elementCount, parameter: header.parameter() };
}

/** The checksum of a body, for {@link DataHeader.checksum}. Never 0, which means "none". */
export function checksumOf(body: Uint8Array): number {
  return crc32(body) || 1;
}

/** The error for bytes that are not a frame. The words continue "A frame …". */
export function protocolError(words: string, details: ErrorDetails = {}): GradringError {
  return new GradringError('ERR_PROTOCOL', `A frame ${words}.`, details);
}

/** Runs a reader of untrusted bytes. Every error becomes `ERR_PROTOCOL`. */
export function checked<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof GradringError) throw error;
    throw new GradringError('ERR_PROTOCOL', `A frame holds no valid ${what}.`, {}, { cause: error });
  }
}

/**
 * Finds the root table of untrusted bytes. FlatBuffers' JavaScript has no verifier: its readers return `undefined` past
 * the end, and follow any offset. So the root and its vtable are checked here. Vectors are read as views by
 * {@link checked} readers, and a view that would pass the end throws.
 */
export function checkedRoot<T extends { bb_pos: number }>(
  bytes: Uint8Array,
  what: string,
  getRoot: (buffer: flatbuffers.ByteBuffer) => T,
): T {
  return checked(what, () => {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    checkTable(bytes, view.getUint32(0, true));
    return getRoot(new flatbuffers.ByteBuffer(bytes));
  });
}

/** Throws unless the table at that offset is within the bytes, and its fields are within the table. */
function checkTable(bytes: Uint8Array, table: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const vtable = table - view.getInt32(table, true);
  const vtableBytes = view.getUint16(vtable, true);
  const tableBytes = view.getUint16(vtable + 2, true);
  if (vtable + vtableBytes > bytes.length || table + tableBytes > bytes.length) throw new RangeError('table cut short');
  // As far as the readers look, even if the size is odd.
  for (let slot = 4; slot < vtableBytes; slot += 2) {
    // Signed, as in the readers.
    const field = view.getInt16(vtable + slot, true);
    if (field < 0 || field >= tableBytes) throw new RangeError('field outside of its table');
  }
}

function decodeError(text: string | null): SerializedError {
  const error = readError(parsed(text));
  if (error === undefined) throw protocolError('holds no valid abort text');
  return error;
}

const isOffer = isWith<Offer>({ host: isText, port: isBetween(1, 65_535), token: isText });
const isGreeting = isWith<Greeting>({ pid: isBetween(1, 2 ** 31 - 1), offer: isOptional(isOffer) });

function decodeGreeting(text: string | null): Greeting {
  const greeting = parsed(text);
  if (!isGreeting(greeting)) throw protocolError('holds no valid greeting');
  const { pid, offer } = greeting;
  if (offer === undefined) return { pid };
  const { host, port, token } = offer;
  if (isIP(host) === 0 || !/^[0-9a-f]+$/.test(token)) throw protocolError('holds no valid greeting');
  return { pid, offer: { host, port, token } };
}

/** The value of JSON; undefined if the text is none. (The words of the parser's error would quote it.) */
function parsed(text: string | null): unknown {
  return attempt(() => JSON.parse(text ?? '') as unknown);
}
