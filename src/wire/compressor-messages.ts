import * as flatbuffers from 'flatbuffers';
import { checked, checkedRoot, protocolError } from './frame';
import { CompressorMessages as MessagesTable } from './generated/compressor-messages';

/** Packs the messages of a rank for all tensors. */
export function encodeMessages(messages: readonly Uint8Array[]): Uint8Array {
  const bytes = messages.reduce((sum, { length }) => sum + length, 0);
  const all = new Uint8Array(bytes);
  let start = 0;
  for (const message of messages) {
    all.set(message, start);
    start += message.length;
  }
  const builder = new flatbuffers.Builder(bytes + 4 * messages.length + 64);
  const vector = builder.createByteVector(all);
  const lengths = MessagesTable.createLengthsVector(
    builder,
    messages.map(({ length }) => length),
  );
  builder.finish(MessagesTable.createCompressorMessages(builder, lengths, vector));
  return builder.asUint8Array();
}

/**
 * Unpacks them: views of the bytes. Their content is not checked.
 *
 * @param count How many there must be.
 * @throws GradringError `ERR_PROTOCOL` for anything else.
 */
export function decodeMessages(bytes: Uint8Array, count: number): Uint8Array[] {
  const table = checkedRoot(bytes, 'compressor messages', buffer => MessagesTable.getRootAsCompressorMessages(buffer));
  return checked('compressor messages', () => {
    const all = table.messagesArray() ?? new Uint8Array(0);
    if (table.lengthsLength() !== count) {
      throw protocolError(`holds the messages of ${table.lengthsLength()} of ${count} tensors`);
    }
    const isWithin =
      all.byteOffset >= bytes.byteOffset && all.byteOffset + all.length <= bytes.byteOffset + bytes.length;
    if (!isWithin) throw new RangeError('messages cut short');
    let end = 0;
    const messages = Array.from({ length: count }, (_, i) => {
      const start = end;
      end += table.lengths(i)!;
      return all.subarray(start, end);
    });
    if (end !== all.length) throw protocolError(`holds ${all.length} bytes of messages where ${end} are announced`);
    return messages;
  });
}

/** Packs numbers of a rank, of which all ranks want the largest. */
export function encodeMaxima(values: Float32Array): Uint8Array {
  return new Uint8Array(values.slice().buffer);
}

/**
 * Unpacks them.
 *
 * @param count How many there must be.
 * @throws GradringError `ERR_PROTOCOL` for anything else, and for numbers that are not finite.
 */
export function decodeMaxima(bytes: Uint8Array, count: number): Float32Array {
  if (bytes.length !== 4 * count) throw protocolError(`holds ${bytes.length} bytes of maxima`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const values = Float32Array.from({ length: count }, (_, i) => view.getFloat32(4 * i, true));
  if (!values.every(Number.isFinite)) throw protocolError('holds a maximum that is not finite');
  return values;
}
