const { VALUE_FORMATS } = require('../../dist/compression/value-format');
const { encodeGradientPayload, encodeNonFinite } = require('../../dist/wire/gradient-payload');
const { joined, mutateBytes } = require('./mutate-bytes');
const { PayloadChecker } = require('./payload-checker');
const { payloadSeeds } = require('./payload-seeds');
const { TABLES } = require('./payload-tables');

const AROUND_BYTES = 256;

/**
 * Bodies of steps. An input is a byte for the format that is expected, one for the table of tensors (see
 * payload-tables.js), and the message. What the streams hold is damaged before they are packed, mostly, for little of
 * what is wrong with the FlatBuffers around them gets as far as the decoders.
 *
 * @param {PayloadChecker} checker
 * @returns {import('./fuzz').Target}
 */
function gradientPayloadTarget(checker = new PayloadChecker()) {
  return {
    name: 'gradient-payload',
    seeds: () => [
      ...payloadSeeds().map(packed),
      ...[0, 1].map(tensor => ({ bytes: joined(Uint8Array.of(0, 0), encodeNonFinite(tensor)) })),
    ],
    mutate: (random, entry, other) =>
      entry.payload === undefined || random.below(6) === 0
        ? { bytes: mutateBytes(random, entry.bytes, other.bytes) }
        : packed(mutatePayload(random, entry.payload, other.payload ?? entry.payload)),
    run: bytes => {
      const format = VALUE_FORMATS[(bytes[0] ?? 0) % VALUE_FORMATS.length];
      const { outcome } = checker.check(placed(bytes.subarray(2)), format, TABLES[(bytes[1] ?? 0) % TABLES.length]);
      return { outcome, features: checker.trace.features };
    },
  };
}

/** The message in the middle of a larger buffer, as messages may be: what lies around it must not be seen. */
function placed(message) {
  const around = new Uint8Array(message.length + 2 * AROUND_BYTES).fill(0xa5);
  around.set(message, AROUND_BYTES);
  return around.subarray(AROUND_BYTES, AROUND_BYTES + message.length);
}

function packed(payload) {
  const message = encodeGradientPayload({ ...payload, format: VALUE_FORMATS[payload.format] });
  return { bytes: joined(Uint8Array.of(payload.format, payload.table), message), payload };
}

/** Mutates one stream or both, or the counts, or exchanges a stream, or expects the same of another table or format. */
function mutatePayload(random, payload, other) {
  const { counts, streams } = payload;
  const mutateStream = name => ({ ...streams, [name]: mutateBytes(random, streams[name], other.streams[name]) });
  switch (random.below(10)) {
    case 0:
      return {
        ...payload,
        streams: { indices: mutateStream('indices').indices, values: mutateStream('values').values },
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
        streams: { indices: random.bytes(random.below(256)), values: random.bytes(random.below(256)) },
      };
    case 5:
    case 6:
      return { ...payload, streams: mutateStream('values') };
    default:
      return { ...payload, streams: mutateStream('indices') };
  }
}

function mutateCount(random, counts) {
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

module.exports = { gradientPayloadTarget };
