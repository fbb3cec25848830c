import { connect } from '../../src/core/core-ring';
import { failureOf } from '../support/rings';
import { type Failure, placesOfRings, RING_SIZES, runFixture } from '../tensorflow/support';

type Outcome = Failure & { readonly value?: unknown };
type Outcomes = Readonly<Record<string, Outcome>>;

let inRings: readonly Readonly<Record<number, Outcomes>>[];

beforeAll(async () => {
  const { ranks, ports } = await placesOfRings();
  inRings = await runFixture('../../core/fixtures/core-scenarios.js', { ranks, input: { ports } });
}, 300_000);

describe.each(RING_SIZES)('%i ranks', worldSize => {
  /** What a scenario returned on each rank. It must not have failed on any. */
  function valuesOf<T>(scenario: string): T[] {
    return inRings.slice(0, worldSize).map(rings => {
      const { value, ...failure } = rings[worldSize]![scenario]!;
      expect(failure).toEqual({});
      return value as T;
    });
  }

  /** What every rank returned, the same on all. */
  function valueOf<T>(scenario: string): T {
    const [first, ...others] = valuesOf<T>(scenario);
    for (const other of others) expect(other).toEqual(first);
    return first!;
  }

  const last = worldSize - 1;

  test.each([
    'dense',
    'dense, clipped, Nesterov',
    'dgc',
    'dgc, clipped, Nesterov, int8',
    'dgc without momentum',
    'lowRank',
    'oneBit',
    'qsgd',
  ])('%s: weights, state and statistics are those of the wrapped optimizer, bit for bit', name => {
    expect(valueOf(`equal: ${name}`)).toEqual({ moved: 'weights', weights: true, state: true, statistics: true });
  });

  test('a step returns the mean, in the same arrays each time, and does not write to the gradients', () => {
    const [first] = valuesOf<Record<string, unknown>>('what a step returns');
    expect(first).toEqual({
      copy: { a: [last / 2, 1], b: [0, 0] },
      given: [0, 1],
      isSame: true,
      swapped: { a: [0, 0], b: [last / 2, 1] },
      steps: 2,
      after: expect.objectContaining({ code: 'ERR_CLOSED' }),
    });
  });

  test('a step must be awaited before the next', () => {
    expect(valueOf('steps that are not awaited')).toEqual(['ERR_INVALID_ARGUMENT', 'ERR_INVALID_ARGUMENT', 1]);
  });

  test('a gradient that is not finite is an error on all ranks, or the step is skipped on all', () => {
    const { error, ...others } = valueOf<{ error: Failure }>('a gradient that is not finite');
    expect(error).toMatchObject({ code: 'ERR_NON_FINITE', details: { rank: last, variable: 'a', step: 0 } });
    const three = { a: [3, 3] };
    expect(others).toEqual({ next: three, skipped: null, after: three, counts: [2, 1, 1] });
  });

  test('wrong arguments are errors before anything is sent', () => {
    const { afterwards, ...mistakes } = valueOf<Outcomes>('wrong arguments');
    const words = Object.fromEntries(Object.entries(mistakes).map(([name, { message }]) => [name, message]));
    expect(new Set(Object.values(mistakes).map(({ code }) => code))).toEqual(new Set(['ERR_INVALID_ARGUMENT']));
    expect(words).toEqual({
      'no shapes': 'ring.gradients takes shapes by name, as { w: [10, 20] }, not undefined.',
      'no names': 'ring.gradients takes the shape of at least one array.',
      'no list': "The shape of 'a' is 3; it must be a list of whole numbers, 0 or more.",
      'half a length': "The shape of 'a' is [ 1.5 ]; it must be a list of whole numbers, 0 or more.",
      'an unknown option': expect.stringMatching(/^ring\.gradients has no option 'momentun'\. Did you mean momentum\?/),
      'a bare compression': expect.stringMatching(/Pass the compression by its name/),
      'no compression': expect.stringMatching(/^compression must be what dgc/),
      'a momentum of 1': 'momentum is 1; it must be at least 0, and less than 1.',
      'a Nesterov of 1': 'nesterov is 1; it must be true or false.',
      'a learning rate of -1': 'learningRate is -1; it must be a number, 0 or more.',
      'other words': "onNonFinite is 'ignore'; it must be 'error' or 'skip'.",
      'no gradients': 'step takes gradients by name, as { w: gradient }, not undefined.',
      'an array': expect.stringMatching(/^step takes gradients by name, as .*, not Float32Array\(6\)/),
      'a missing gradient': "There is no gradient of 'b'. Pass null if it is zero.",
      'an unknown gradient': expect.stringMatching(
        /^There is a gradient of 'c', but ring\.gradients has no shape of it/,
      ),
      'a gradient of float64': expect.stringMatching(/'a' is Float64Array\(6\).*; it must be a Float32Array, or null/),
      'a gradient of another size': "The gradient of 'a' has 5 elements, but its shape [2, 3] has 6.",
      'an epoch of -1': expect.stringMatching(/^epoch is -1/),
      'a checkpoint of nothing': expect.stringMatching(/takes what ring\.gradients\(…\) returned\.$/),
      'a checkpoint without an array': "ring.checkpoint: 'b' is trained, but it is not among the arrays.",
      'a checkpoint of another shape': "ring.checkpoint: 'a' is float32[1], but its gradients have the shape [2, 3].",
      'a checkpoint without a folder': expect.stringMatching(/needs dir, the path of a folder\.$/),
      'best of model.fit': expect.stringMatching(/^ring\.checkpoint has no option 'best'/),
      'arrays that are none': expect.stringMatching(
        /^ring\.verifyReplicas: 'a' is \[ 1, 2 \]; it must be a Float32Array/,
      ),
    });
    expect(afterwards!.value).toEqual({ a: [0, 0, 0, 0, 0, 0], b: [0] });
  });

  test('ranks with other shapes, names or options are told what differs, and the ring goes on', () => {
    const { shape, order, momentum, compression } = valueOf<Outcomes>('ranks that do not fit together');
    if (worldSize === 1) {
      for (const each of [shape, order, momentum, compression]) expect(each!.message).toBeUndefined();
      return;
    }
    for (const each of [shape, order, momentum, compression]) expect(each!.code).toBe('ERR_MODEL_MISMATCH');
    expect(shape!.message).toMatch(/variable 0 is 'a' float32\[2, 3\] on rank 0, but 'a' float32\[3, 2\] on rank \d/);
    expect(order!.message).toMatch(/variable 0 is 'a' float32\[1\] on rank 0, but 'b' float32\[1\]/);
    expect(momentum!.message).toMatch(/^Ranks call ring\.gradients differently: momentum is 0\.9 on rank 0, but 0\.5/);
    expect(compression!.message).toMatch(/^Ranks call ring\.gradients differently: compression is noCompression\(\)/);
  });

  test('named arrays are averaged, broadcast and compared', () => {
    type Value = { before: Outcome; average: Outcome; arrays: object; isSame: boolean; other: Outcome };
    const values = valuesOf<Value>('named arrays');
    for (const { before, average, arrays, isSame, other } of values) {
      expect(arrays).toEqual({ w: [worldSize, 2], n: [7 - last], d: [last / 2] });
      expect(isSame).toBe(true);
      if (worldSize === 1) continue;
      expect(before).toMatchObject({ code: 'ERR_REPLICAS_DIVERGED', details: { rank: 1, variable: 'w' } });
      expect(average).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
      expect(average.message).toMatch(
        /'n' differs between the ranks, and is int32; only float32 and float64 variables/,
      );
      expect(other).toMatchObject({ code: 'ERR_MODEL_MISMATCH' });
    }
  });

  test.each(['dense', 'dgc', 'lowRank'])('%s: a checkpoint continues bit for bit', name => {
    const values = valuesOf<Record<string, unknown>>('a checkpoint continues bit for bit');
    values.forEach((value, rank) =>
      expect(value[name]).toEqual({
        nothing: [0, null],
        step: 4,
        state: { rank },
        from: expect.stringContaining('4'),
        learningRate: 0.1,
        isSame: true,
        ofRank: 7 * (rank + 1),
        hash: 64,
      }),
    );
  });

  test('a wrapped optimizer continues from such a checkpoint, bit for bit', () => {
    const value = valueOf('a wrapped optimizer continues from its checkpoint');
    expect(value).toEqual({ step: 3, rate: 0.1, isSame: true });
  });
});

test('an elastic run is refused before the rank comes to the rendezvous', async () => {
  const env = { ...process.env };
  Object.assign(process.env, { RANK: '0', WORLD_SIZE: '2', GRADRING_ELASTIC: 'member' });
  try {
    const error = await failureOf(connect());
    expect(error.code).toBe('ERR_INVALID_ARGUMENT');
    expect(error.message).toMatch(/gradring\/core does not support elastic runs.*without --min and --max-restarts/);
  } finally {
    process.env = env;
  }
});
