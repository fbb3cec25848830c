import { frameBytes } from '../../src/bench/frame-size';

/** A struct of 48 bytes with the table around it, and the framing of so short a part. */
const HEADER_BYTES = 64 + 2;

test.each([
  [0, 2],
  [255, 2],
  [256, 9],
  [100_000, 9],
])('a payload of %i bytes has %i of framing, and a header before it', (length, framing) => {
  expect(frameBytes(new Uint8Array(length), 25_557_032)).toBe(HEADER_BYTES + length + framing);
});
