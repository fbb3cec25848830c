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
  Purpose,
  REDUCTIONS,
  type RingIdentity,
  type StatusHeader,
} from '../../src/wire/frame';
import type { CodedTensor } from '../../src/compression/gradient-streams';
import { encodeGradientPayload, encodeNonFinite, type ExpectedTensor } from '../../src/wire/gradient-payload';
import { decodeRendezvousMessage, encodeRendezvousMessage } from '../../src/wire/rendezvous-message';
import { PayloadChecker } from '../fuzz/payload-checker';
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
  test.each(MESSAGES)('survive the way: $kind', message => {
    expect(decodeRendezvousMessage(placed(encodeRendezvousMessage(message)))).toEqual(message);
  });

  test.each(MESSAGES)('damaged in any way, are refused or sane: $kind', message => {
    const bytes = encodeRendezvousMessage(message);
    const isText = (text: string) => typeof text === 'string' && text.length <= bytes.length + 200;
    const { decoded, refused } = survey(damaged(bytes, 17), decodeRendezvousMessage, result => {
      switch (result.kind) {
        case 'join':
          demand(isCount(result.protocolVersion, 255), 'protocolVersion');
          demand(isCount(result.worldSize, 0xffffffff) && isCount(result.rank, 0xffffffff), 'numbers');
          demand(isText(result.runId) && isText(result.hostId), 'texts');
          demand(isText(result.publicKey) && isText(result.agreed.join('')), 'more texts');
          demand(isCount(result.patienceMs, 0xffffffff), 'patienceMs');
          return;
        case 'roster':
          demand(result.hostIds.length <= bytes.length && isText(result.hostIds.join('')), 'hostIds');
          demand(result.publicKeys.length <= bytes.length && isText(result.publicKeys.join('')), 'publicKeys');
          demand(4 * result.members.length <= bytes.length, 'members');
          demand(
            result.members.every(each => isCount(each, 0xffffffff)),
            'members',
          );
          demand(isCount(result.generation, 0xffffffff), 'generation');
          return;
        case 'listening':
          demand(isCount(result.rank, 0xffffffff) && isText(result.endpoint), 'listening');
          return;
        case 'start':
          demand(typeof result.ringId === 'bigint', 'ringId');
          demand(result.endpoints.length <= bytes.length && isText(result.endpoints.join('')), 'endpoints');
          return;
        case 'connected':
        case 'leave':
        case 'ask':
          demand(isCount(result.rank, 0xffffffff), result.kind);
          return;
        case 'formed':
          demand(typeof result.lanes === 'boolean', 'lanes');
          return;
        case 'waiting':
          demand(isCount(result.count, 0xffffffff), 'waiting');
          return;
        case 'refuse':
          demand(isText(result.code) && isText(result.message), 'refuse');
      }
    });
    expect(refused).toBeGreaterThan(100);
    expect(decoded).toBeGreaterThan(20);
  });

  test('whose fields lie before their table are refused', () => {
    // In a table of 32 KiB and more, offsets of fields can be such as FlatBuffers' readers take for negative ones.
    const { length } = encodeRendezvousMessage(MESSAGES[0]!);
    const bytes = new Uint8Array(length + 0xffff);
    bytes.set(encodeRendezvousMessage(MESSAGES[0]!));
    const view = new DataView(bytes.buffer);
    const root = view.getUint32(0, true);
    const rootVtable = root - view.getInt32(root, true);
    const field = root + view.getUint16(rootVtable + 6, true);
    const join = field + view.getUint32(field, true);
    const vtable = join - view.getInt32(join, true);
    expect(decodeRendezvousMessage(bytes)).toEqual(MESSAGES[0]);
    view.setUint16(vtable + 2, 0xffff, true); // the table's bytes
    view.setUint16(vtable + 4, 0x8000, true); // the protocol version
    expect(() => decodeRendezvousMessage(bytes)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
  });

  test('whose strings all point to one long string are refused, before they fill the memory', () => {
    const hostIds = ['x'.repeat(30_000), ...Array.from({ length: 7_000 }, () => '')];
    const roster = { kind: 'roster', hostIds, publicKeys: [], members: [], generation: 0, tree: false } as const;
    const bytes = encodeRendezvousMessage(roster);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const vector = [...Array(bytes.length / 4).keys()].find(word => view.getUint32(word * 4, true) === hostIds.length)!;
    const long = (vector + 1) * 4 + view.getUint32((vector + 1) * 4, true);
    for (let i = 0; i < hostIds.length; i++) view.setUint32((vector + 1 + i) * 4, long - (vector + 1 + i) * 4, true);
    expect(() => decodeRendezvousMessage(bytes)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
  });
});

test('a table whose list of fields has an odd size is refused (found by npm run fuzz)', () => {
  const bytes = Buffer.from(
    [
      '0c00000008000c000b00040008000000200000000000000118002800270080001c001800140010000c00',
      '0b000a000400e8ffffff204e0033343536373839616263646566000000000500000072756e2d37000000',
    ].join(''),
    'hex',
  );
  expect(() => decodeRendezvousMessage(bytes)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
});
