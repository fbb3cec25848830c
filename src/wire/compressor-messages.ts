import { protocolError } from './frame';

/** Packs the messages of a rank for all tensors: the length of each as a uint32, and then the messages. */
export function encodeMessages(messages: readonly Uint8Array[]): Uint8Array {
  let end = 4 * messages.length;
  const bytes = new Uint8Array(messages.reduce((sum, { length }) => sum + length, end));
  const lengths = new DataView(bytes.buffer);
  for (const [i, message] of messages.entries()) {
    lengths.setUint32(4 * i, message.length, true);
    bytes.set(message, end);
    end += message.length;
  }
  return bytes;
}

/**
 * Unpacks them: views of the bytes. Their content is not checked.
 *
 * @param count How many there must be.
 * @throws GradringError `ERR_PROTOCOL` for anything else.
 */
export function decodeMessages(bytes: Uint8Array, count: number): Uint8Array[] {
  let end = 4 * count;
  if (bytes.length < end)
    throw protocolError(`holds ${bytes.length} bytes, fewer than the lengths of ${count} messages`);
  const lengths = new DataView(bytes.buffer, bytes.byteOffset, end);
  const messages = Array.from({ length: count }, (_, i) => {
    const start = end;
    end += lengths.getUint32(4 * i, true);
    return bytes.subarray(start, end);
  });
  if (end !== bytes.length) throw protocolError(`holds ${bytes.length} bytes of messages where ${end} are announced`);
  return messages;
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
