import * as flatbuffers from 'flatbuffers';
import { checked, checkedRoot, protocolError } from './frame';
import { GradientPayload as PayloadTable } from './generated/gradient-payload';

/** The schema's value formats, in the order of their numbers. */
const VALUE_FORMATS = ['float32', 'float16', 'bfloat16', 'int8', 'log4'] as const;
type ValueFormat = (typeof VALUE_FORMATS)[number];

/** Where a table's vtable has vectors of numbers. Two bytes per field, in the order of the schema, begin at byte 4. */
const SLOTS = { counts: 6, sectionEnds: 18 } as const;

/** The default of `non_finite_rank`. */
const NO_RANK = -1;

/** What the receiver of a payload knows about each tensor before it reads a byte. */
export interface ExpectedTensor {
  readonly elementCount: number;
  /** How many of its elements are sent; `undefined` if the payload says. */
  readonly count: number | undefined;
}

/** The entries of all tensors as bits. This layer does not read them. */
interface Streams {
  readonly indices: Uint8Array;
  readonly values: Uint8Array;
  readonly sectionEnds: readonly number[];
}

/** One rank's contribution to a step. */
export interface GradientPayload {
  readonly format: ValueFormat;
  /** How many elements of each tensor are sent; `undefined` if all ranks know. */
  readonly counts: readonly number[] | undefined;
  readonly streams: Streams;
  /** What the rank tells the others with the step: a byte of bits. Default 0. */
  readonly notices?: number;
}

/** A received payload, with the counts that it has or that were known. */
export interface ReceivedPayload {
  readonly counts: readonly number[];
  readonly notices: number;
  /** Views of the message. Their content is not checked yet. */
  readonly streams: Streams;
}

/** A received payload without streams. */
export interface NonFinitePayload {
  /** The number, among all tensors, of one that is not finite. */
  readonly nonFiniteTensor: number;
  /** The rank that has it, if the payload names one. */
  readonly nonFiniteRank: number | undefined;
}

/** Packs a payload. The streams are copied. */
export function encodeGradientPayload({ format, counts, streams, notices = 0 }: GradientPayload): Uint8Array {
  const { indices, values, sectionEnds } = streams;
  const numbers = (counts?.length ?? 0) + sectionEnds.length;
  const builder = new flatbuffers.Builder(indices.length + values.length + 4 * numbers + 128);
  const vectors = [indices, values].map(stream => builder.createByteVector(stream));
  const countsVector = counts === undefined ? 0 : PayloadTable.createCountsVector(builder, [...counts]);
  const endsVector = sectionEnds.length === 0 ? 0 : PayloadTable.createSectionEndsVector(builder, [...sectionEnds]);
  PayloadTable.startGradientPayload(builder);
  PayloadTable.addValueFormat(builder, VALUE_FORMATS.indexOf(format));
  if (countsVector !== 0) PayloadTable.addCounts(builder, countsVector);
  PayloadTable.addIndices(builder, vectors[0]!);
  PayloadTable.addValues(builder, vectors[1]!);
  PayloadTable.addNotices(builder, notices);
  if (endsVector !== 0) PayloadTable.addSectionEnds(builder, endsVector);
  builder.finish(PayloadTable.endGradientPayload(builder));
  return builder.asUint8Array();
}

/**
 * The payload of a rank whose gradient has NaN or infinity in the tensor of that number.
 *
 * @param rank In a payload that other ranks make, too: that rank, or `undefined` if only a sum has overflowed.
 */
export function encodeNonFinite(tensor: number, rank = NO_RANK): Uint8Array {
  const builder = new flatbuffers.Builder(64);
  PayloadTable.startGradientPayload(builder);
  PayloadTable.addNonFiniteTensor(builder, tensor);
  PayloadTable.addNonFiniteRank(builder, rank);
  builder.finish(PayloadTable.endGradientPayload(builder));
  return builder.asUint8Array();
}

/**
 * Unpacks a payload of values in that format. {@link GradientCodec.decode} checks the content of the streams.
 *
 * @param tensorCount The number of all tensors, of which `tensors` may be a part.
 * @throws GradringError `ERR_PROTOCOL` for anything else.
 */
export function decodeGradientPayload(
  bytes: Uint8Array,
  format: ValueFormat,
  tensors: readonly ExpectedTensor[],
  tensorCount = tensors.length,
): ReceivedPayload | NonFinitePayload {
  const table = checkedRoot(bytes, 'gradient payload', buffer => PayloadTable.getRootAsGradientPayload(buffer));
  return checked('gradient payload', () => {
    const nonFiniteTensor = table.nonFiniteTensor();
    if (nonFiniteTensor !== -1) {
      if (nonFiniteTensor < 0 || nonFiniteTensor >= tensorCount)
        throw protocolError('names a tensor that does not exist');
      const rank = table.nonFiniteRank();
      if (rank < NO_RANK) throw protocolError('names a rank that does not exist');
      return { nonFiniteTensor, nonFiniteRank: rank === NO_RANK ? undefined : rank };
    }
    const sent = VALUE_FORMATS[table.valueFormat()];
    if (sent !== format) throw protocolError(`holds ${sent ?? 'unknown'} values where ${format} values are expected`);
    const known = tensors.every(({ count }) => count !== undefined);
    if (table.countsLength() !== (known ? 0 : tensors.length)) {
      throw protocolError(`counts the entries of ${table.countsLength()} of ${tensors.length} tensors`);
    }
    if (!known) requireWithin(bytes, table, 'counts', tensors.length);
    const counts = tensors.map((tensor, t) => {
      const { elementCount, count = table.counts(t)! } = tensor;
      if (count > elementCount)
        throw protocolError(`holds ${count} entries for tensor ${t} of ${elementCount} elements`);
      return count;
    });
    const ends = table.sectionEndsLength();
    if (ends > 0) requireWithin(bytes, table, 'sectionEnds', ends);
    const sectionEnds = Array.from({ length: ends }, (_, i) => table.sectionEnds(i)!);
    const streams = { indices: within(bytes, table.indicesArray()), values: within(bytes, table.valuesArray()) };
    return { counts, streams: { ...streams, sectionEnds }, notices: table.notices() };
  });
}

/**
 * Throws if not all numbers of a vector are in the message. Those past its end would be read as 0. (A view would need
 * alignment.)
 */
function requireWithin(bytes: Uint8Array, table: PayloadTable, vector: keyof typeof SLOTS, length: number): void {
  const start = table.bb!.__vector(table.bb_pos + table.bb!.__offset(table.bb_pos, SLOTS[vector]));
  if (start < 0 || start + 4 * length > bytes.length) throw new RangeError(`${vector} cut short`);
}

/** Returns a stream if it is within the message. Otherwise the view could be of other data in the same buffer. */
function within(bytes: Uint8Array, stream: Uint8Array | null): Uint8Array {
  if (stream === null) return new Uint8Array(0);
  const start = stream.byteOffset - bytes.byteOffset;
  if (start < 0 || start + stream.length > bytes.length) throw new RangeError('stream cut short');
  return stream;
}
