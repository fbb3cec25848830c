import { GradringError } from '../../src/errors';
import {
  decodeHeader,
  ELEMENT_TYPES,
  encodeHeader,
  FrameKind,
  type Header,
  Operation,
  REDUCTIONS,
  type RingIdentity,
} from '../../src/wire/frame';
import {
  decodeGradientPayload,
  encodeGradientPayload,
  encodeNonFinite,
  type ExpectedTensor,
} from '../../src/wire/gradient-payload';
import {
  decodeRendezvousMessage,
  encodeRendezvousMessage,
  type RendezvousMessage,
} from '../../src/wire/rendezvous-message';
import { random } from '../support/random';

const MUTATIONS = 4_000;
const RING: RingIdentity = { ringId: 0x0123456789abcdefn, generation: 3, worldSize: 4 };

const DATA: Header = {
  ...{ kind: FrameKind.Data, origin: 2, sequence: 2 ** 40, part: 77, checksum: 0xdeadbeef, parameter: 0xcafebabe },
  ...{ operation: Operation.Exchange, elementType: 'float32', reduction: 'mean', elementCount: 25_557_032 },
};
const ABORT: Header = {
  ...{ kind: FrameKind.Abort, origin: 1 },
  error: { code: 'ERR_PEER_LOST', message: 'Rank 3 is gone – for good.', details: { rank: 3, operation: 'barrier()' } },
};
const HEADERS: Header[] = [DATA, ABORT, { kind: FrameKind.Hello, origin: 0 }, { kind: FrameKind.Goodbye, origin: 3 }];

const TENSORS: ExpectedTensor[] = [
  { elementCount: 100, dense: false },
  { elementCount: 5, dense: true },
  { elementCount: 7, dense: false },
  { elementCount: 1_000_000, dense: false },
];
const bytesOf = (array: Uint32Array | Float32Array) => new Uint8Array(array.buffer);
const PAYLOAD = {
  counts: [3, 5, 0, 2],
  indices: bytesOf(Uint32Array.of(0, 50, 99, 12, 999_999)),
  values: bytesOf(Float32Array.of(1, -2.5, 1e-30, 3e38, -0)),
  dense: bytesOf(Float32Array.of(1, 2, 3, 4, 5)),
};

const MESSAGES: RendezvousMessage[] = [
  { kind: 'join', protocolVersion: 1, runId: 'run-7', worldSize: 4, rank: 2, hostId: '0123456789abcdef' },
  { kind: 'roster', hostIds: ['aaaa', 'bbbb', 'cccc', 'dddd'] },
  { kind: 'listening', rank: 2, endpoint: 'tcp://10.0.0.7:40123' },
  { kind: 'start', ringId: 0xfedcba9876543210n, endpoints: ['ipc:///tmp/a', 'ipc:///tmp/b', 'tcp://[::1]:4'] },
  { kind: 'refuse', code: 'ERR_RANK_TAKEN', message: 'Two processes claim rank 1.' },
];

/** Every prefix, and seeded damage of all kinds. Each as a view in the middle of a larger buffer, as messages may be. */
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
  for (let round = 0; round < 500; round++) yield placed(Uint8Array.from({ length: below(200) }, () => below(256)));
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

  test.each(HEADERS)('damaged in any way, are refused or sane: kind $kind', header => {
    const { decoded, refused } = survey(
      damaged(encodeHeader(RING, header), header.kind),
      bytes => decodeHeader(RING, bytes),
      result => {
        demand(isCount(result.origin, RING.worldSize - 1), 'origin');
        if (result.kind === FrameKind.Data) {
          demand(isCount(result.sequence, Number.MAX_SAFE_INTEGER), 'sequence');
          demand(isCount(result.elementCount, Number.MAX_SAFE_INTEGER), 'elementCount');
          for (const word of [result.part, result.checksum, result.parameter])
            demand(isCount(word, 0xffffffff), 'word');
          demand(typeof Operation[result.operation] === 'string', 'operation');
          demand(ELEMENT_TYPES.includes(result.elementType) && REDUCTIONS.includes(result.reduction), 'names');
        } else if (result.kind === FrameKind.Abort) {
          const { code, message, details } = result.error;
          demand(typeof code === 'string' && typeof message === 'string', 'words');
          demand(details.rank === undefined || typeof details.rank === 'number', 'rank');
        } else {
          demand([FrameKind.Hello, FrameKind.Goodbye, FrameKind.Seen].includes(result.kind), 'kind');
        }
      },
    );
    expect(refused).toBeGreaterThan(1_000);
    expect(decoded).toBeGreaterThan(100); // else the damage is so great that nothing is tested
  });

  test.each(['null', '1', '[]', '{}', '{"code":"X","message":1}', '{"code":"X","message":"m","details":7}'])(
    'of an abort with the text %j are refused',
    text => {
      // The error is written as JSON, so `toJSON` gives any text.
      const error = { toJSON: () => JSON.parse(text) as unknown } as never;
      const bytes = encodeHeader(RING, { kind: FrameKind.Abort, origin: 1, error });
      expect(() => decodeHeader(RING, bytes)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
    },
  );
});

describe('gradient payloads', () => {
  const examine = (result: ReturnType<typeof decodeGradientPayload>) => {
    if ('nonFiniteTensor' in result) {
      demand(isCount(result.nonFiniteTensor, TENSORS.length - 1), 'nonFiniteTensor');
      return;
    }
    demand(result.counts.length === TENSORS.length, 'counts');
    const { indices, values, dense } = result;
    const words = new Uint32Array(indices.slice().buffer);
    let at = 0;
    let denseCount = 0;
    TENSORS.forEach((tensor, t) => {
      demand(isCount(result.counts[t]!, tensor.elementCount), 'count');
      if (tensor.dense) {
        denseCount += result.counts[t]!;
        return;
      }
      for (let previous = -1, end = at + result.counts[t]!; at < end; previous = words[at]!, at++) {
        demand(words[at]! > previous && words[at]! < tensor.elementCount, 'index');
      }
    });
    demand(indices.length === at * 4 && values.length === at * 4 && dense.length === denseCount * 4, 'lengths');
    for (const stream of [values, dense]) {
      demand(
        new Float32Array(stream.slice().buffer).every(value => Number.isFinite(value)),
        'finite',
      );
    }
  };

  test('survive the way, aligned', () => {
    const bytes = encodeGradientPayload(PAYLOAD, TENSORS);
    expect(decodeGradientPayload(placed(bytes), TENSORS)).toEqual(PAYLOAD);
    expect(decodeGradientPayload(placed(encodeNonFinite(2)), TENSORS)).toEqual({ nonFiniteTensor: 2 });
  });

  test.each([
    ['of numbers', encodeGradientPayload(PAYLOAD, TENSORS)],
    ['of no numbers', encodeNonFinite(2)],
  ])('%s, damaged in any way, are refused or sane', (_, bytes) => {
    let around: ArrayBufferLike | undefined;
    const { refused } = survey(
      damaged(bytes, 9),
      input => {
        around = input.buffer;
        const result = decodeGradientPayload(input, TENSORS);
        for (const stream of 'counts' in result ? [result.indices, result.values, result.dense] : []) {
          const end = input.byteOffset + input.length;
          const inside = stream.byteOffset >= input.byteOffset && stream.byteOffset + stream.length <= end;
          if (stream.buffer === around && !inside) throw new Error('A stream lies outside of the message.');
        }
        return result;
      },
      examine,
    );
    expect(refused).toBeGreaterThan(500);
  });

  test('whose indices repeat, descend or pass the end are refused', () => {
    const withIndices = (...indices: number[]) =>
      encodeGradientPayload({ ...PAYLOAD, indices: bytesOf(Uint32Array.from(indices)) }, TENSORS);
    expect(decodeGradientPayload(withIndices(0, 1, 2, 0, 1), TENSORS)).toBeDefined();
    for (const bad of [
      [0, 0, 2, 0, 1],
      [2, 1, 3, 0, 1],
      [0, 1, 100, 0, 1],
      [0, 1, 2, 0, 1_000_000],
    ]) {
      // prettier-ignore
      expect(() => decodeGradientPayload(withIndices(...bad), TENSORS)).toThrow(/bad index/);
    }
  });

  test.each([NaN, Infinity, -Infinity])('that hold %d are refused', value => {
    const values = bytesOf(Float32Array.of(1, 2, value, 4, 5));
    for (const stream of ['values', 'dense'] as const) {
      const bytes = encodeGradientPayload({ ...PAYLOAD, [stream]: values }, TENSORS);
      expect(() => decodeGradientPayload(bytes, TENSORS)).toThrow(/not finite/);
    }
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
          return;
        case 'roster':
          demand(result.hostIds.length <= bytes.length && isText(result.hostIds.join('')), 'hostIds');
          return;
        case 'listening':
          demand(isCount(result.rank, 0xffffffff) && isText(result.endpoint), 'listening');
          return;
        case 'start':
          demand(typeof result.ringId === 'bigint', 'ringId');
          demand(result.endpoints.length <= bytes.length && isText(result.endpoints.join('')), 'endpoints');
          return;
        case 'refuse':
          demand(isText(result.code) && isText(result.message), 'refuse');
      }
    });
    expect(refused).toBeGreaterThan(500);
    expect(decoded).toBeGreaterThan(100);
  });

  test('whose strings all point to one long string are refused, before they fill the memory', () => {
    const hostIds = ['x'.repeat(30_000), ...Array.from({ length: 7_000 }, () => '')];
    const bytes = encodeRendezvousMessage({ kind: 'roster', hostIds });
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const vector = [...Array(bytes.length / 4).keys()].find(word => view.getUint32(word * 4, true) === hostIds.length)!;
    const long = (vector + 1) * 4 + view.getUint32((vector + 1) * 4, true);
    for (let i = 0; i < hostIds.length; i++) view.setUint32((vector + 1 + i) * 4, long - (vector + 1 + i) * 4, true);
    expect(() => decodeRendezvousMessage(bytes)).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
  });
});
