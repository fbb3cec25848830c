import fc from 'fast-check';
import { requirePlain } from '../src/plain-json';

const refusal = (place: string, found: string) =>
  expect.objectContaining({
    code: 'ERR_INVALID_ARGUMENT',
    message: expect.stringContaining(`It cannot hold ${place}: it is ${found}, and would not come back`),
  });
const plain = (value: unknown) => requirePlain(value, 'It cannot hold', 'state');

test.each<[string, unknown, string, string]>([
  ['a promise', (async () => 7)(), 'state', 'a Promise'],
  ['a typed array', { seed: Uint32Array.of(1) }, 'state.seed', 'a Uint32Array'],
  ['NaN', { history: [{}, {}, {}, { loss: NaN }] }, 'state.history[3].loss', 'NaN'],
  ['infinity', [-Infinity], 'state[0]', '-Infinity'],
  ['a Map', { a: new Map([[1, 2]]) }, 'state.a', 'a Map'],
  ['a Date', new Date(0), 'state', 'a Date'],
  ['an instance of a class', { at: new (class Place {})() }, 'state.at', 'a Place'],
  ['a method', { toJSON: () => 7 }, 'state.toJSON', 'a function'],
  ['a BigInt', 7n, 'state', 'a bigint'],
  ['undefined in an array', [1, undefined], 'state[1]', 'undefined'],
  ['a hole', [1, , 2], 'state[1]', 'undefined'],
  ['a property of an array', Object.assign([1], { index: 0 }), 'state.index', 'a property of an array'],
  ['a symbol as a name', { [Symbol('x')]: 1 }, 'state[Symbol(x)]', 'named by a symbol'],
])('%s is refused, with its place', (_, value, place, found) => {
  expect(() => plain(value)).toThrow(refusal(place, found));
});

test('so is an object that holds itself; one that is there twice is not', () => {
  const one = { a: 1 };
  expect(plain([one, { one }])).toEqual([one, { one }]);
  const self: Record<string, unknown> = { list: [one] };
  (self['list'] as unknown[]).push({ self });
  expect(() => plain(self)).toThrow(refusal('state.list[1].self', 'an object that holds itself'));
});

test('of any value: it is refused, or comes back as it was', () => {
  /** JSON has one zero only. */
  const withOneZero = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(withOneZero);
    if (typeof value !== 'object' || value === null) return value === 0 ? 0 : value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withOneZero(each)]));
  };
  const all = { withBigInt: true, withDate: true, withMap: true, withSet: true, withTypedArray: true } as const;
  const some = fc.oneof(
    fc.anything({ ...all, withSparseArray: true, withNullPrototype: true, withBoxedValues: true }),
    fc.jsonValue(),
  );
  let accepted = 0;
  fc.assert(
    fc.property(some, value => {
      try {
        plain(value);
      } catch {
        return;
      }
      accepted++;
      if (value !== undefined) expect(JSON.parse(JSON.stringify(value))).toEqual(withOneZero(value));
    }),
    { numRuns: 2_000 },
  );
  expect(accepted).toBeGreaterThan(500);
});

test('plain JSON is never refused', () => {
  fc.assert(fc.property(fc.jsonValue(), value => plain(value) === value));
  expect(plain(undefined)).toBeUndefined();
  expect(plain({ best: undefined })).toEqual({});
});
