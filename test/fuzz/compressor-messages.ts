import { CodeScratch } from '../../src/compression/compressors/code-scratch';
import { FactorCode } from '../../src/compression/compressors/factor-code';
import { decodeOneBit, encodeOneBit } from '../../src/compression/compressors/one-bit';
import { addQuantized, encodeQuantized, type QsgdNumbers } from '../../src/compression/compressors/qsgd';
import { randomOf } from '../../src/compression/compressors/random-of';
import { addSigns, encodeSigns } from '../../src/compression/compressors/tern-grad';
import type { TensorCode } from '../../src/compression/compressors/tensor-code';
import { WholeCode } from '../../src/compression/compressors/whole-code';
import { decodeMaxima, decodeMessages, encodeMaxima, encodeMessages } from '../../src/wire/compressor-messages';
import type { Target } from './fuzz';
import { joined } from './mutate-bytes';
import { demand, refusalOf } from './refusal';

/** Elements and columns of two tensors. */
const TENSORS = [
  [600, 20],
  [5, 1],
] as const;
/** How many numbers a rank sends, of which all want the largest. */
const MAXIMA = 5;

const summed = (length: number, add: (sums: Float32Array) => void) => {
  const sums = new Float32Array(length);
  add(sums);
  return sums;
};

const qsgd = (numbers: QsgdNumbers) => ({
  encode: (values: Float32Array) => encodeQuantized(values, numbers, randomOf(1)),
  decode: (message: Uint8Array, length: number) => summed(length, sums => addQuantized(message, numbers, sums)),
});

const scratch = new CodeScratch();
const coded = (codeOf: (length: number, columns: number) => TensorCode) => ({
  encode: (values: Float32Array, columns: number) => codeOf(values.length, columns).encode(values, randomOf(1)),
  decode: (message: Uint8Array, length: number, columns: number) =>
    summed(length, sums => {
      const code = codeOf(length, columns);
      code.clear();
      code.add(message);
      code.take(sums, 1);
    }),
});

/** What a compressor sends for values, and what the receivers make of it. */
const COMPRESSORS = [
  { encode: encodeOneBit, decode: decodeOneBit },
  {
    encode: (values: Float32Array) => encodeSigns(Int8Array.from(values, value => Math.trunc(1.25 * value))),
    decode: (message: Uint8Array, length: number) => summed(length, sums => addSigns(message, sums)),
  },
  qsgd({ levels: 3, bucket: 64 }),
  qsgd({ levels: 2 ** 20, bucket: 7 }), // numbers with long codes
  coded(length => new WholeCode(scratch, length, 0.7)),
  coded((length, b) => new FactorCode(scratch, { a: length / b, b, rank: Math.min(3, b, length / b), step: 0.5 })),
];

/** An input is a byte for the compressor, and what a rank sends for the tensors; or a last number, and maxima. */
export const compressorMessagesTarget: Target = {
  name: 'compressor-messages',
  seeds: () => [
    ...COMPRESSORS.flatMap(({ encode }, kind) =>
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
    { bytes: joined(Uint8Array.of(COMPRESSORS.length), encodeMaxima(new Float32Array(MAXIMA).fill(0.5))) },
  ],
  run: bytes => {
    const compressor = COMPRESSORS[(bytes[0] ?? 0) % (COMPRESSORS.length + 1)];
    const body = bytes.subarray(1);
    try {
      const arrays =
        compressor === undefined
          ? [decodeMaxima(body, MAXIMA)]
          : decodeMessages(body, TENSORS.length).map((message, i) => {
              const [length, columns] = TENSORS[i]!;
              return compressor.decode(message, length, columns);
            });
      for (const array of arrays) demand(array.every(Number.isFinite), 'A number is not finite.');
      return { outcome: 'accepted' };
    } catch (error) {
      return { outcome: refusalOf(error) };
    }
  },
};
