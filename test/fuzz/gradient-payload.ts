import { VALUE_FORMATS } from '../../src/compression/value-format';
import { encodeGradientPayload, encodeNonFinite } from '../../src/wire/gradient-payload';
import type { Entry, Target } from './fuzz';
import { joined, mutateBytes } from './mutate-bytes';
import { PayloadChecker } from './payload-checker';
import { type PayloadSeed, payloadSeeds } from './payload-seeds';
import { TABLES } from './payload-tables';
import type { Random } from './random';

const AROUND_BYTES = 256;

/** A message, and the payload that it was packed from. */
interface PayloadEntry extends Entry {
  readonly payload?: PayloadSeed;
}

/**
 * Bodies of steps. An input is a byte for the format that is expected, one for the table of tensors (see
 * payload-tables.ts), and the message. What the streams hold is damaged before they are packed, mostly, for little of
 * what is wrong with the FlatBuffers around them gets as far as the decoders.
 */
export function gradientPayloadTarget(checker = new PayloadChecker()): Target {
  return {
    name: 'gradient-payload',
    seeds: () => [
      ...payloadSeeds().map(packed),
      ...[0, 1].map(tensor => ({ bytes: joined(Uint8Array.of(0, 0), encodeNonFinite(tensor)) })),
    ],
    mutate(random, entry: PayloadEntry, other: PayloadEntry) {
      return entry.payload === undefined || random.below(6) === 0
        ? { bytes: mutateBytes(random, entry.bytes, other.bytes) }
        : packed(mutatePayload(random, entry.payload, other.payload ?? entry.payload));
    },
    run: bytes => {
      const format = VALUE_FORMATS[(bytes[0] ?? 0) % VALUE_FORMATS.length];
      const { outcome } = checker.check(placed(bytes.subarray(2)), format, TABLES[(bytes[1] ?? 0) % TABLES.length]);
      return { outcome, features: checker.trace.features };
    },
  };
}

/** The message in the middle of a larger buffer, as messages may be: what lies around it must not be seen. */
function placed(message: Uint8Array): Uint8Array {
  const around = new Uint8Array(message.length + 2 * AROUND_BYTES).fill(0xa5);
  around.set(message, AROUND_BYTES);
  return around.subarray(AROUND_BYTES, AROUND_BYTES + message.length);
}

function packed(payload: PayloadSeed): PayloadEntry {
  const message = encodeGradientPayload({ ...payload, format: VALUE_FORMATS[payload.format] });
  return { bytes: joined(Uint8Array.of(payload.format, payload.table), message), payload };
}

/**
 * Mutates one stream or both, or the counts, or the ends of sections, or exchanges a stream, or expects the same of
 * another table or format.
 */
function mutatePayload(random: Random, payload: PayloadSeed, other: PayloadSeed): PayloadSeed {
  const { counts, streams } = payload;
  const mutateStream = (name: 'indices' | 'values') => ({
    ...streams,
    [name]: mutateBytes(random, streams[name], other.streams[name]),
  });
  switch (random.below(11)) {
    case 0:
      return {
        ...payload,
        streams: { ...streams, indices: mutateStream('indices').indices, values: mutateStream('values').values },
      };
    case 1:
      return {
        ...payload,
        streams: { ...streams, ...random.of([{ indices: other.streams.indices }, { values: other.streams.values }]) },
      };
    case 2:
      return {
        ...payload,
        ...random.of([{ format: random.below(VALUE_FORMATS.length) }, { table: other.table, counts: other.counts }]),
      };
    case 3:
      if (counts === undefined || counts.length === 0) return { ...payload, streams: mutateStream('values') };
      return { ...payload, counts: counts.with(random.below(counts.length), mutateCount(random, counts)) };
    case 4:
      // Noise, which the decoders take for whatever codes it happens to name.
      return {
        ...payload,
        streams: { ...streams, indices: random.bytes(random.below(256)), values: random.bytes(random.below(256)) },
      };
    case 5: {
      const { sectionEnds } = streams;
      if (sectionEnds.length === 0)
        return { ...payload, streams: { ...streams, sectionEnds: other.streams.sectionEnds } };
      const [i, near] = [random.below(sectionEnds.length), random.of(sectionEnds)];
      const end = random.of([0, near, near + 1, Math.max(0, near - 1), random.uint32()]);
      return { ...payload, streams: { ...streams, sectionEnds: sectionEnds.with(i, end) } };
    }
    case 6:
    case 7:
      return { ...payload, streams: mutateStream('values') };
    default:
      return { ...payload, streams: mutateStream('indices') };
  }
}

function mutateCount(random: Random, counts: readonly number[]): number {
  const count = random.of(counts);
  return random.of([
    0,
    1,
    16,
    17,
    512,
    513,
    1024,
    1025,
    count + 1,
    Math.max(0, count - 1),
    random.uint32(),
    2 ** 30 - 1,
    2 ** 30 - 2,
  ]);
}
