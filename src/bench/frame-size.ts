import { checksumOf, encodeHeader, FrameKind, Operation, Purpose } from '../wire/frame';

/** ZMTP's framing of a message part: flags, and the length in one byte or, from 256 bytes on, in eight. */
const SHORT_FRAMING_BYTES = 2;
const LONG_FRAMING_BYTES = 9;
const LONG_FROM_BYTES = 256;

/**
 * The bytes on a link of the message with that payload, as an exchange of so many elements sends it: header and
 * payload, each with ZeroMQ's framing. What TCP and IP add is not counted.
 */
export function frameBytes(payload: Uint8Array, elementCount: number): number {
  const ring = { ringId: 1n, generation: 1, worldSize: 2 };
  const header = encodeHeader(ring, {
    kind: FrameKind.Data,
    operation: Operation.Exchange,
    purpose: Purpose.Call,
    elementType: 'float32',
    reduction: 'mean',
    elementCount,
    parameter: 0, // whatever it is, it takes as many bytes
    sequence: 1,
    part: 0,
    origin: 0,
    checksum: checksumOf(payload),
  });
  return partBytes(header) + partBytes(payload);
}

function partBytes({ length }: Uint8Array): number {
  return length + (length < LONG_FROM_BYTES ? SHORT_FRAMING_BYTES : LONG_FRAMING_BYTES);
}
