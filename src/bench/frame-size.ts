import { checksumOf, encodeHeader, FrameKind, Operation, Purpose } from '../wire/frame';

/** ZMTP frames a message part with flags and a length: of one byte, or of eight bytes from 256 bytes on. */
const SHORT_FRAMING_BYTES = 2;
const LONG_FRAMING_BYTES = 9;
const LONG_FROM_BYTES = 256;

/**
 * How many bytes a message with a payload takes on a link, if an exchange of so many elements sends it: header and
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
    parameter: 0, // every value takes as many bytes
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
