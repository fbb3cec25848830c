import { GradientCodec } from '../../src/compression/gradient-codec';
import { VALUE_FORMATS, type ValueFormat } from '../../src/compression/value-format';
import { GradringError } from '../../src/errors';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import {
  decodeHeader,
  ELEMENT_TYPES,
  encodeHeader,
  FrameKind,
  MailStep,
  type Header,
  Operation,
  PROTOCOL_VERSION,
  Purpose,
  REDUCTIONS,
  type RingIdentity,
  type StatusHeader,
} from '../../src/wire/frame';
import type { CodedTensor } from '../../src/compression/gradient-streams';
import { encodeGradientPayload, encodeNonFinite, type ExpectedTensor } from '../../src/wire/gradient-payload';
import {
  decodeRendezvousMessage,
  encodeRendezvousMessage,
  type RendezvousMessage,
} from '../../src/wire/rendezvous-message';
import { PayloadChecker } from '../fuzz/payload-checker';
import { mutateJsonOrBytes } from '../fuzz/mutate-json';
import { Random } from '../fuzz/random';
import { rendezvousTarget } from '../fuzz/rendezvous';
import { MESSAGES } from '../fuzz/rendezvous-messages';
import { Pieces, sharedMemory } from '../kernels/shared-memory';
import { random } from '../support/random';

/** More of them: `npm run fuzz`. */
const MUTATIONS = 600;
const RING: RingIdentity = { ringId: 0x0123456789abcdefn, generation: 3, worldSize: 4 };

const DATA: Header = {
  ...{
    kind: FrameKind.Data,
    origin: 2,
    sequence: 2 ** 40,
    part: 77,
    checksum: 0xdeadbeef,
    parameter: 0xcafebabe,
  },
  ...{ operation: Operation.Exchange, purpose: Purpose.Call, elementType: 'float32', reduction: 'mean' },
  ...{ elementCount: 25_557_032 },
};
const ABORT: Header = {
  ...{ kind: FrameKind.Abort, origin: 1 },
  error: { code: 'ERR_PEER_LOST', message: 'Rank 3 is gone – for good.', details: { rank: 3, operation: 'barrier()' } },
};
const STATUS: StatusHeader = {
  ...{ kind: FrameKind.Status, origin: 3, sequence: 2 ** 40, parameter: 0xcafebabe, elementCount: 25_557_032 },
  ...{ operation: Operation.Exchange, purpose: Purpose.FirstStep, elementType: 'float32', reduction: 'mean' },
  ...{ settings: { learningRate: 0.1, step: 3 } },
  ...{ isCalling: true, sinceMs: 2 ** 40, step: 0, round: 7, asks: 'report' },
};
const HEADERS: Header[] = [
  DATA,
  ABORT,
  STATUS,
  {
    ...{ kind: FrameKind.Mail, step: MailStep.Part, origin: 2, other: 2, destination: 1, tag: 9, number: 2 ** 40 },
    ...{ part: 77, bytes: 2 ** 32, elementType: 'int64' },
  },
  { kind: FrameKind.Hello, origin: 0, pid: 4711 },
  {
    kind: FrameKind.Hello,
    origin: 1,
    pid: 2 ** 31 - 1,
    offer: { host: '10.0.0.5', port: 5000, token: 'ab'.repeat(32) },
  },
  { kind: FrameKind.Goodbye, origin: 3 },
];

/** Sparse ones with and without a choice of codes, one of which nothing and one of which all travels. */
const TENSORS = [
  { elementCount: 100, count: 3 },
  { elementCount: 5, count: 5 },
  { elementCount: 7, count: 0 },
  { elementCount: 1_000_000, count: 2 },
  { elementCount: 90, count: 20 },
];
const SENDER_SAYS: ExpectedTensor[] = TENSORS.map(({ elementCount }) => ({ elementCount, count: undefined }));

/** Two sections. */
const LARGE = [
  { elementCount: 2 ** 20, count: 3 },
  { elementCount: 2 ** 20, count: 2 },
];

/** The streams of entries for tensors. */
function streamsIn(format: ValueFormat, tensors: readonly CodedTensor[]) {
  const memory = sharedMemory();
  const pieces = new Pieces(memory);
  const codec = new GradientCodec(
    instantiateKernels(memory),
    memory,
    format,
    pieces.bytes(GradientCodec.workspaceBytes),
  );
  return codec.encode(
    tensors.map(({ elementCount, count }, t) => ({
      elementCount,
      count,
      indices: pieces.uint32(Array.from({ length: count }, (_, i) => Math.floor(((i + 0.5) * elementCount) / count))),
      values: pieces.float32(Array.from({ length: count }, (_, i) => (1 + i / 3) * (i % 2 === 0 ? 1 : -1) * 10 ** -t)),
    })),
  );
}

/**
 * Every prefix, and seeded damage of all kinds. Each as a view in the middle of a larger buffer, as messages may be.
 */
function* damaged(bytes: Uint8Array, seed: number): Generator<Uint8Array> {
  for (let length = 0; length < bytes.length; length++) yield placed(bytes.subarray(0, length));
  const next = random(seed);
  const below = (n: number) => Math.floor(next() * n);
  const nasty = [0, 1, 4, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffc, bytes.length];
  for (let round = 0; round < MUTATIONS; round++) {
    const copy = bytes.slice();
    const view = new DataView(copy.buffer);
    for (let hits = 1 + below(3); hits > 0; hits--) {
      if (next() < 0.5) copy[below(copy.length)] = below(256);
      else
        view.setUint32(
          below(copy.length / 4) * 4,
          next() < 0.5 ? nasty[below(nasty.length)]! : below(bytes.length),
          true,
        );
    }
    yield placed(copy);
  }
  for (let round = 0; round < 100; round++) yield placed(Uint8Array.from({ length: below(200) }, () => below(256)));
}

function placed(bytes: Uint8Array): Uint8Array {
  const around = new Uint8Array(bytes.length + 512).fill(0xa5); // what must never be seen
  around.set(bytes, 256);
  return around.subarray(256, 256 + bytes.length);
}

/** Decodes, lets `ERR_PROTOCOL` pass and nothing else, and has what was decoded examined. */
function survey<T>(inputs: Iterable<Uint8Array>, decode: (bytes: Uint8Array) => T, examine: (result: T) => void) {
  const seen = { decoded: 0, refused: 0 };
  for (const bytes of inputs) {
    let result: T;
    try {
      result = decode(bytes);
    } catch (error) {
      if (!(error instanceof GradringError) || error.code !== 'ERR_PROTOCOL') {
        throw new Error(`[${bytes.join()}] raises ${String(error)}`, { cause: error });
      }
      seen.refused++;
      continue;
    }
    try {
      examine(result);
    } catch (error) {
      throw new Error(`[${bytes.join()}] is decoded as ${String(result)}: ${String(error)}`, { cause: error });
    }
    seen.decoded++;
  }
  return seen;
}

function demand(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

const isCount = (value: number, most: number) => Number.isInteger(value) && value >= 0 && value <= most;

describe('frame headers', () => {
  test.each(HEADERS)('survive the way: kind $kind', header => {
    expect(decodeHeader(RING, placed(encodeHeader(RING, header)))).toEqual(header);
  });

  test('of other runs, generations, ranks and versions are refused', () => {
    const codeOf = (ring: RingIdentity, header: Header) => {
      try {
        return decodeHeader(RING, encodeHeader(ring, header)).kind;
      } catch (error) {
        return (error as GradringError).code;
      }
    };
    expect(codeOf(RING, DATA)).toBe(FrameKind.Data);
    expect(codeOf({ ...RING, ringId: 1n }, DATA)).toBe('ERR_PROTOCOL');
    expect(codeOf({ ...RING, generation: 4 }, DATA)).toBe('ERR_PROTOCOL');
    expect(codeOf(RING, { ...DATA, origin: 4 })).toBe('ERR_PROTOCOL');
  });

  test('members of the JSON of a status do not replace what the header says', () => {
    const bytes = Buffer.from(encodeHeader(RING, STATUS));
    const members = '"settings":{"learningRate":0.1,"step":3}';
    bytes.write('"kind":0,"origin":1,"sequence":0'.padEnd(members.length), bytes.indexOf(members));
    const { kind, origin, sequence } = STATUS;
    expect(decodeHeader(RING, bytes)).toMatchObject({ kind, origin, sequence, round: 7 });
  });

  test.each(HEADERS)('damaged in any way, are refused or sane: kind $kind', header => {
    const { decoded, refused } = survey(
      damaged(encodeHeader(RING, header), header.kind),
      bytes => decodeHeader(RING, bytes),
      result => {
        demand(isCount(result.origin, RING.worldSize - 1), 'origin');
        if (result.kind === FrameKind.Data || result.kind === FrameKind.Status) {
          demand(isCount(result.sequence, Number.MAX_SAFE_INTEGER), 'sequence');
          demand(isCount(result.elementCount, Number.MAX_SAFE_INTEGER), 'elementCount');
          const words =
            result.kind === FrameKind.Data ? [result.part, result.checksum] : [result.round, result.step ?? 0];
          for (const word of [...words, result.parameter]) demand(isCount(word, Number.MAX_SAFE_INTEGER), 'word');
          if (result.kind === FrameKind.Status) demand(isCount(result.sinceMs, Number.MAX_SAFE_INTEGER), 'time');
          demand(typeof Operation[result.operation] === 'string', 'operation');
          demand(ELEMENT_TYPES.includes(result.elementType) && REDUCTIONS.includes(result.reduction), 'names');
        } else if (result.kind === FrameKind.Mail) {
          const { step, destination, other, number, bytes, elementType } = result;
          demand(typeof MailStep[step] === 'string' && ELEMENT_TYPES.includes(elementType), 'names');
          demand(isCount(destination, RING.worldSize - 1) && isCount(other, RING.worldSize - 1), 'ranks');
          demand(isCount(number, Number.MAX_SAFE_INTEGER) && isCount(bytes, 2 ** 32), 'numbers');
        } else if (result.kind === FrameKind.Abort) {
          const { code, message, details } = result.error;
          demand(typeof code === 'string' && typeof message === 'string', 'words');
          demand(details.rank === undefined || typeof details.rank === 'number', 'rank');
        } else if (result.kind === FrameKind.Hello) {
          demand(isCount(result.pid, 2 ** 31 - 1), 'pid');
          const { host, port, token } = result.offer ?? { host: '', port: 1, token: '' };
          demand(typeof host === 'string' && typeof token === 'string' && isCount(port, 65_535), 'offer');
        } else {
          demand([FrameKind.Goodbye, FrameKind.Seen].includes(result.kind), 'kind');
        }
      },
    );
    expect(refused).toBeGreaterThan(200);
    expect(decoded).toBeGreaterThan(20); // else the damage is so great that nothing is tested
  });

  const NO_OBJECTS = ['null', '1', '[]', '{}'];
  test.each([
    ...[...NO_OBJECTS, '{"code":"X","message":1}', '{"code":"X","message":"m","details":7}'].map(text => [
      'abort',
      text,
    ]),
    ...[...NO_OBJECTS, '{"host":"a","port":0,"token":"b"}', '{"host":"a","port":65536,"token":"b"}'].map(text => [
      'offer',
      text,
    ]),
    ...['null', '0', '-1', '1.5', '2147483648', '"7"', '[]'].map(text => ['process id', text]),
  ])('of frames: %s with the text %j are refused', (what, text) => {
    // What is said is written as JSON, so `toJSON` gives any text.
    const said = { toJSON: () => JSON.parse(text!) as unknown } as never;
    const bytes = encodeHeader(
      RING,
      what === 'abort'
        ? { kind: FrameKind.Abort, origin: 1, error: said }
        : { kind: FrameKind.Hello, origin: 1, pid: 7, [what === 'offer' ? 'offer' : 'pid']: said },
    );
    expect(() => decodeHeader(RING, bytes)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
  });
});

// What must hold of payloads that are accepted, and of memory, is told in test/fuzz/payload-checker.ts.
describe.each(VALUE_FORMATS)('gradient payloads of %s', format => {
  const checker = new PayloadChecker();
  const streams = streamsIn(format, TENSORS);
  const counts = TENSORS.map(({ count }) => count);
  const PAYLOADS: [name: string, bytes: Uint8Array, tensors: ExpectedTensor[]][] = [
    ['with known counts', encodeGradientPayload({ format, counts: undefined, streams }), TENSORS],
    ['that tell the counts', encodeGradientPayload({ format, counts, streams }), SENDER_SAYS],
    ['that blame a tensor', encodeNonFinite(2), TENSORS],
    ['in sections', encodeGradientPayload({ format, counts: undefined, streams: streamsIn(format, LARGE) }), LARGE],
  ];

  /** How many of the inputs are not refused. */
  const accepted = (inputs: Iterable<Uint8Array>, tensors: ExpectedTensor[]): number => {
    let count = 0;
    for (const bytes of inputs) {
      const { outcome } = checker.check(placed(bytes), format, tensors);
      if (outcome === 'accepted' || outcome === 'not finite at the origin') count++;
    }
    return count;
  };

  test.each(PAYLOADS)('%s survive the way', (_, bytes, tensors) => {
    expect(accepted([bytes], tensors)).toBe(1);
  });

  test.each(PAYLOADS)('%s are refused if they are cut short', (_, bytes, tensors) => {
    const prefixes = Array.from(bytes, (_, length) => bytes.subarray(0, length));
    // Up to three bytes at the end only fill up a word.
    expect(accepted(prefixes, tensors)).toBeLessThanOrEqual(3);
  });

  test.each(PAYLOADS)('%s with any bit flipped are refused or sane', (_, bytes, tensors) => {
    const flipped = Array.from({ length: 8 * bytes.length }, (_, bit) => {
      const copy = bytes.slice();
      copy[bit >> 3]! ^= 1 << (bit & 7);
      return copy;
    });
    const count = accepted(flipped, tensors);
    expect(count).toBeGreaterThan(10); // such as signs of values
    expect(count).toBeLessThan(flipped.length - 100);
  });

  test.each(PAYLOADS)('%s, damaged in any way, are refused or sane', (_, bytes, tensors) => {
    const inputs = [...damaged(bytes, 9)];
    expect(inputs.length - accepted(inputs, tensors)).toBeGreaterThan(100);
  });

  const inSections = streamsIn(format, LARGE);
  const large = encodeGradientPayload({ format, counts: undefined, streams: inSections });
  test.each([
    ['counts', 6, counts, encodeGradientPayload({ format, counts, streams }), SENDER_SAYS],
    ['sectionEnds', 18, inSections.sectionEnds, large, LARGE],
  ])('whose %s go on behind the end are refused', (name, slot, numbers, told, tensors) => {
    const bytes = Uint8Array.of(...told, ...new Uint8Array(4));
    const view = new DataView(bytes.buffer);
    const table = view.getUint32(0, true);
    const field = table + view.getUint16(table - view.getInt32(table, true) + slot, true);
    view.setUint32(field, told.length - field, true);
    view.setUint32(told.length, numbers.length, true);
    expect(checker.check(placed(bytes), format, tensors).outcome).toContain(`${name} cut short`);
  });

  test('for other tensors or of another format are refused', () => {
    const outcome = (bytes: Uint8Array, tensors: readonly ExpectedTensor[], of = format) =>
      checker.check(placed(bytes), of, tensors).outcome;
    const [[, known], [, told]] = PAYLOADS as [(typeof PAYLOADS)[0], (typeof PAYLOADS)[0]];
    const other = VALUE_FORMATS[(VALUE_FORMATS.indexOf(format) + 1) % VALUE_FORMATS.length]!;
    expect(outcome(known, TENSORS, other)).toMatch(/where .* values are expected/);
    expect(outcome(known, SENDER_SAYS)).toMatch(/counts the entries of # of # tensors/);
    expect(outcome(told, TENSORS)).toMatch(/counts the entries of # of # tensors/);
    expect(outcome(told, [...SENDER_SAYS, { elementCount: 1, count: undefined }])).toMatch(/counts the entries/);
    expect(outcome(told, SENDER_SAYS.with(1, { elementCount: 4, count: undefined }))).toMatch(/entries for tensor #/);
    expect(outcome(known, TENSORS.slice(1))).toMatch(/^The payload /);
    expect(outcome(encodeNonFinite(TENSORS.length + 2), TENSORS)).toMatch(/names a tensor/);
  });
});

describe('rendezvous messages', () => {
  const encoded = (message: RendezvousMessage) => Buffer.from(encodeRendezvousMessage(message));
  const decoded = (bytes: Uint8Array) => decodeRendezvousMessage([bytes]);

  test.each(MESSAGES)('survive the way: $kind', message => {
    expect(decoded(placed(encoded(message)))).toEqual(message);
  });

  test.each(MESSAGES)('damaged in any way, are refused or sane: $kind', message => {
    const entry = { bytes: encoded(message) };
    const damage = new Random(17);
    const isAccepted = () => {
      const { outcome } = rendezvousTarget.run(mutateJsonOrBytes(damage, entry, entry).bytes);
      return outcome.startsWith('accepted');
    };
    const accepted = Array.from({ length: MUTATIONS }, isAccepted).filter(Boolean).length;
    expect(accepted).toBeGreaterThan(3);
    expect(MUTATIONS - accepted).toBeGreaterThan(100);
  });

  const JOIN = MESSAGES[0]!;
  test.each<[string, object]>([
    ['no kind', { rank: 1 }],
    ['the kind of a method', { kind: 'toString', rank: 1 }],
    ['a list', [JOIN]],
    ['a number that is none', { ...JOIN, rank: -1 }],
    ['a number that is too large', { ...JOIN, worldSize: 2 ** 32 }],
    ['a name that cannot be shown', { ...JOIN, hostId: '\x1b[2J' }],
    ['a name that is too long', { ...JOIN, runId: 'x'.repeat(513) }],
    ['a list of something else', { ...JOIN, agreed: [['auto']] }],
    ['something missing', { kind: 'start', ringId: 'fedcba9876543210' }],
    ['a ring that has no number', { kind: 'start', ringId: '0xcba9876543210', endpoints: [] }],
  ])('with %s are refused', (_, message) => {
    expect(() => decoded(Buffer.from(JSON.stringify(message)))).toThrow('holds no valid rendezvous message');
  });

  test('keep nothing that does not belong to them', () => {
    const text = JSON.stringify({ ...JOIN, extra: [{}] });
    const proto = text.replace('{', '{"__proto__":{"lanes":true},');
    for (const each of [text, proto]) expect(decoded(Buffer.from(each))).toStrictEqual(JOIN);
  });

  test('that are text of any kind are refused', () => {
    for (const text of ['', 'A', '{', '!!!!', 'GET / HTTP/1.1\r\n\r\n', '\0'.repeat(100), '\xff'.repeat(1_000)])
      expect(() => decoded(Buffer.from(text, 'latin1'))).toThrow('holds no valid rendezvous message');
    expect(() => decoded(Buffer.from('['.repeat(60_000)))).toThrow('holds no valid rendezvous message');
  });

  test.each([0, 2, 3_000])('in %i parts are refused', count => {
    const parts = Array<Buffer>(count).fill(encoded(JOIN));
    expect(() => decodeRendezvousMessage(parts)).toThrow(`A frame comes in ${count} parts.`);
  });

  test('of a rank of another version tell its version, whatever else they have', () => {
    const other = { kind: 'join', protocolVersion: PROTOCOL_VERSION + 1, rank: 3, worldSize: 'four' };
    expect(decoded(Buffer.from(JSON.stringify(other)))).toMatchObject({ ...other, worldSize: 0 });
  });
});

test('a frame whose fields lie before their table is refused', () => {
  // In a table of 32 KiB and more, offsets of fields can be such as FlatBuffers' readers take for negative ones.
  const header = encodeHeader(RING, DATA);
  const bytes = new Uint8Array(header.length + 0xffff);
  bytes.set(header);
  expect(decodeHeader(RING, bytes)).toEqual(decodeHeader(RING, header));
  const view = new DataView(bytes.buffer);
  const table = view.getUint32(0, true);
  const vtable = table - view.getInt32(table, true);
  view.setUint16(vtable + 2, 0xffff, true); // the table's bytes
  view.setUint16(vtable + 4, 0x8000, true); // the header
  expect(() => decodeHeader(RING, bytes)).toThrow('holds no valid frame header');
});

test('a frame whose list of fields has an odd size is refused (found by npm run fuzz)', () => {
  const bytes = new Uint8Array(encodeHeader(RING, DATA).length + 64);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, 12, true); // where the table is
  view.setUint16(4, 5, true); // the list of fields, before it: its size
  view.setUint16(6, 8, true); // the table's bytes
  view.setInt16(8, -8, true); // the header, of which half is in the list
  view.setInt32(12, 8, true); // the list is so far before the table
  expect(() => decodeHeader(RING, bytes)).toThrow('holds no valid frame header');
});
