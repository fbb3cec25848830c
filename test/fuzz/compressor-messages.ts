import { decodeOneBit, encodeOneBit } from '../../src/compression/compressors/one-bit';
import { addQuantized, encodeQuantized } from '../../src/compression/compressors/qsgd';
import { randomOf } from '../../src/compression/compressors/random-of';
import { addSigns, encodeSigns } from '../../src/compression/compressors/tern-grad';
import { decodeMessages, encodeMessages } from '../../src/wire/compressor-messages';
import type { Target } from './fuzz';
import { joined } from './mutate-bytes';
import { demand, refusalOf } from './refusal';

/** Elements and columns of two tensors. */
const TENSORS = [
  [600, 20],
  [5, 1],
] as const;
const QSGD = { levels: 3, bucket: 64 };

const summed = (length: number, add: (sums: Float32Array) => void) => {
  const sums = new Float32Array(length);
  add(sums);
  return sums;
};

/** What a compressor sends for values, and what the receivers make of it. */
const COMPRESSORS = [
  { encode: encodeOneBit, decode: decodeOneBit },
  {
    encode: (values: Float32Array) => encodeSigns(Int8Array.from(values, value => (value > 0.8 ? 1 : 0))),
    decode: (message: Uint8Array, length: number) => summed(length, sums => addSigns(message, sums)),
  },
  {
    encode: (values: Float32Array) => encodeQuantized(values, QSGD, randomOf(1)),
    decode: (message: Uint8Array, length: number) => summed(length, sums => addQuantized(message, QSGD, sums)),
  },
];

/** An input is a byte for the compressor, and what a rank sends for the tensors. */
export const compressorMessagesTarget: Target = {
  name: 'compressor-messages',
  seeds: () =>
    COMPRESSORS.flatMap(({ encode }, kind) =>
      [1, 1e-20].map(scale => {
        const messages = TENSORS.map(([length, columns]) =>
          encode(
            Float32Array.from({ length }, (_, i) => scale * Math.sin(i * i)),
            columns,
          ),
        );
        return { bytes: joined(Uint8Array.of(kind), encodeMessages(messages)) };
      }),
    ),
  run: bytes => {
    const { decode } = COMPRESSORS[(bytes[0] ?? 0) % COMPRESSORS.length]!;
    try {
      const messages = decodeMessages(bytes.subarray(1), TENSORS.length);
      const arrays = messages.map((message, i) => {
        const [length, columns] = TENSORS[i]!;
        return decode(message, length, columns);
      });
      for (const array of arrays) demand(array.every(Number.isFinite), 'A sum is not finite.');
      return { outcome: 'accepted' };
    } catch (error) {
      return { outcome: refusalOf(error) };
    }
  },
};
