import { type Failure, runScenarios, TEST_BACKEND } from './support';

interface Outcome extends Failure {
  readonly value?: unknown;
}

const valuesOf = runScenarios('optimizer-scenarios.js', 3);

describe('three ranks', () => {
  /** What every rank returned, the same on all. */
  function valueOf<T>(scenario: string): T {
    const [first, ...others] = valuesOf<T>(scenario);
    for (const other of others) expect(other).toEqual(first);
    return first!;
  }

  test('minimize and minimizeAsync train what is in varList, and give the cost if asked', () => {
    type Value = { costs: number[]; nothing: null[]; steps: number; sparedMoved: boolean };
    const { costs, nothing, steps, sparedMoved } = valueOf<Value>('minimize, all ways');
    expect(costs).toHaveLength(40);
    expect(costs[19]).toBeLessThan(0.8 * costs[0]!);
    expect(costs[39]).toBeLessThan(0.9 * costs[19]!);
    expect(nothing).toEqual([null, null]);
    expect(steps).toBe(43);
    expect(sparedMoved).toBe(false);
  });

  test('without varList they train all trainable variables', () => {
    expect(valueOf('minimize without varList')).toEqual([true, true, false]);
  });

  test('a step is the same asleep or awake', () => {
    type Value = { sync: number[]; async: number[]; alike: boolean };
    const { sync, async, alike } = valueOf<Value>('sync and async do the same');
    expect(async).toEqual(sync);
    expect(alike).toBe(true);
  });

  test('an inner optimizer may keep the averaged gradients', () => {
    expect(valueOf('what an inner optimizer keeps')).toEqual([
      [1, 1],
      [2, 2],
    ]);
  });

  test('updates are tensors over the memory of the exchange, but copies on a GPU, which may read them later', () => {
    expect(valueOf('updates of a backend that works behind the thread')).toEqual([true, false]);
  });

  test('the learning rate may change between steps', () => {
    // With sparsity 0.9 one of the two elements is sent, and the mean of three equal gradients is one gradient.
    expect(valueOf('learning rate')).toEqual([
      [1, -1],
      [0.5, -1.5],
      [0.25, -1.75],
    ]);
  });

  test('a variable may be disposed of and made again under its name, as without a ring', () => {
    type Value = { plain: number[]; wrapped: number[]; gone: Failure; transposed: Failure };
    const { plain, wrapped, gone, transposed } = valueOf<Value>('a variable that is made again under its name');
    expect(wrapped.map(Math.fround)).toEqual(plain.map(Math.fround));
    expect(gone.message).toMatch(
      /^The variable '.*', which the first step trained as float32\[2, 3\], was disposed of\. /,
    );
    expect(transposed.message).toMatch(/was disposed of, and made again as float32\[3, 2\]\. Wrap a new optimizer/);
    for (const { code } of [gone, transposed]) expect(code).toBe('ERR_MODEL_MISMATCH');
  });

  test('weights decay in the gradient, or in the update', () => {
    // Rate 1/4, momentum 1/2, decay 1/2: u = 4, then 2 + 3.5; and 1 − 1/4 · 1/2 ÷ (1 − 1/2) = 3/4 in each step.
    const [gradient, update] = [[7, 5.625], [6, 4.5]]; // prettier-ignore
    const of = (values: number[], b = values) => values.map((w, i) => [w, b[i]]);
    expect(valueOf('weight decay')).toEqual({
      ...{ 'number/gradient': of(gradient), 'number/update': of(update), 'number/accumulate': of(gradient) },
      'function/gradient': of(gradient, [8, 8]), // decays w, but not b
      'function/update': of(update, [8, 8]),
      'function/accumulate': of(gradient, [8, 8]),
    });
  });

  test('the function of the name that the docs show decays kernels and embeddings, but no bias and no norm', () => {
    const half = ['table/embeddings', 'first/kernel', 'last/kernel'];
    const whole = ['first/bias', 'norm/gamma', 'norm/beta', 'last/bias', 'norm/moving_mean', 'norm/moving_variance'];
    const all = [...half.map(name => [name, 4]), ...whole.map(name => [name, 8])];
    const named = (end: string) => Object.fromEntries(all.map(([name, value]) => [`decay/${name}${end}`, value]));
    expect(valueOf('weight decay of layers')).toEqual([named(''), named('_1')]);
  });

  test('what is held back takes the new learning rate, or keeps its own', () => {
    expect(valueOf('residuals while the rate changes')).toEqual({ false: [-2, -1.25], true: [-2, -2] });
  });

  test('a step that sends everything cannot follow one that does not: the momenta differ', () => {
    const { densities, error } = valueOf<{ densities: number[]; error: Failure }>('a dense warm-up that begins anew');
    expect(densities).toEqual([1, 0.1]);
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    expect(error.message).toMatch(/dense warm-up begin anew/);
  });

  test('a first step that takes the dense ring sends everything', () => {
    expect(valueOf('what costs nothing is sent')).toEqual({ density: 1, kept: false });
  });

  test('a variable that the loss does not depend on in a step has a gradient of zero there', () => {
    const { moved } = valueOf<{ moved: [number, number][] }>('a variable without gradient');
    const expected = [
      [-0.1, 0],
      [-0.19, -0.1],
      [-0.171, -0.19], // a goes on by its momentum
    ];
    moved.flat().forEach((value, i) => expect(value).toBeCloseTo(expected.flat()[i]!, 5));
  });

  test('a model with frozen layers keeps their bits', () => {
    expect(valueOf('frozen weights')).toBe(0); // weights that changed in three epochs
  });

  test('empty variables and scalars are trained like others', () => {
    expect(valueOf<number>('an empty variable and a scalar')).toEqual([expect.closeTo(0.8)]);
  });

  test('a subclass of a tfjs optimizer keeps its own rules', () => {
    expect(valueOf('a subclass of momentum')).toEqual([-0.5, -0.5]);
  });

  describe('misuse is a coded error, and the ring goes on', () => {
    test.each([
      ['another variable set', 'ERR_MODEL_MISMATCH', /a gradient of '.*\/b', which the first step did not train/],
      [
        'restored state of another shape',
        'ERR_MODEL_MISMATCH',
        /it has the shape \[5, 4\] for '.*', a variable of the shape \[4, 5\]/,
      ],
      ['gradient of no variable', 'ERR_INVALID_ARGUMENT', /but no variable of that name/],
      ['int32 variable', 'ERR_INVALID_ARGUMENT', /is int32; only float32 variables can be trained/],
    ])('%s', (scenario, code, message) => {
      expect(valueOf(scenario)).toMatchObject({ code, message: expect.stringMatching(message) });
    });

    test('a gradient of another shape, also of the same size', () => {
      type Value = { outcomes: Failure[]; untouched: boolean; steps: number };
      const { outcomes, untouched, steps } = valueOf<Value>('gradient of another shape');
      const told = outcomes.map(({ code, message }) => `${code} ${message?.replace(/'.*'/, 'w')}`);
      const words = (shape: string) =>
        `ERR_INVALID_ARGUMENT The gradient of w has the shape ${shape}, but the variable has [10, 20].`;
      expect(told).toEqual(['[7]', '[20, 10]', '[200]'].flatMap(shape => Array<string>(3).fill(words(shape))));
      expect({ untouched, steps }).toEqual({ untouched: true, steps: 1 });
    });

    test('averages of variables that differ in more than their values, and of int32', () => {
      type Value = { outcomes: Record<string, Outcome>; untouched: boolean };
      const [{ outcomes, untouched }] = valuesOf<Value>('averages of what cannot be averaged') as [Value];
      expect(outcomes).toEqual({
        shapes: expect.objectContaining({ code: 'ERR_MODEL_MISMATCH', details: { rank: 1 } }) as unknown,
        names: expect.objectContaining({ code: 'ERR_MODEL_MISMATCH', details: { rank: 1 } }) as unknown,
        wholes: expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }) as unknown,
        equal: {},
      });
      expect(outcomes['shapes']!.message).toMatch(/float32\[2, 3\] on rank 0, but .*float32\[3, 2\] on rank 1/);
      expect(outcomes['wholes']!.message).toMatch(/int32\/0' differs between the ranks, and is int32; only float32/);
      expect(untouched).toBe(true);
    });

    test('steps that overlap', () => {
      const { refused, steps } = valueOf<{ refused: Failure[]; steps: number }>('overlapping steps');
      expect(refused.map(({ code }) => code)).toEqual(['ERR_INVALID_ARGUMENT', 'ERR_INVALID_ARGUMENT']);
      expect(refused[0]!.message).toMatch(/await/);
      expect(steps).toBe(2);
    });

    test('a warm-up in epochs, and the epoch is not known', () => {
      const { without, density } = valueOf<{ without: Failure; density: number }>('no epoch');
      expect(without).toMatchObject({ code: 'ERR_NO_EPOCH', details: { step: 0 } });
      expect(without.message).toMatch(/ring\.callbacks\(\).*setEpoch.*warmUpSteps/);
      expect(density).toBe(0.25); // of epoch 0, told after
    });
  });

  describe('a gradient that is not finite on one rank', () => {
    test.each(['NaN', 'Infinity'])('%s is an error on all, that names rank, variable and step', bad => {
      type Value = { error: Failure; untouched: boolean; steps: number };
      const scenario = `${bad} is an error`;
      const { error, untouched, steps } = valueOf<Value>(scenario);
      expect(error).toMatchObject({ code: 'ERR_NON_FINITE', details: { rank: 1, variable: `${scenario}/b`, step: 1 } });
      expect(error.message).toMatch(/'.*\/b' holds NaN or infinity on rank 1, in step 1/);
      expect(untouched).toBe(true);
      expect(steps).toBe(3); // training may go on
    });

    test('is skipped on all if asked to; healthy gradients are held back, none is lost', () => {
      type Value = { lost: number; hashes: string[]; steps: number; skippedSteps: number };
      const { lost, hashes, ...counts } = valueOf<Value>('NaN is skipped');
      expect(lost).toBeLessThan(1e-5);
      expect(hashes[2]).toBe(hashes[1]);
      expect(new Set(hashes).size).toBe(4);
      expect(counts).toEqual({ steps: 5, skippedSteps: 1 });
    });

    test('a finite gradient is none, however large its squares', () => {
      expect(valueOf('huge but finite')).toBe(true);
    });
  });

  describe('ranks that do not agree', () => {
    test.each([
      ['different model', /variable 1 is '.*\/b' float32\[4, 5\] on rank 0, but '.*\/b' float32\[5, 4\] on rank 2/, 2],
      ['fewer variables', /variable 1 is '.*\/b' float32\[10, 20\] on rank 0, but missing on rank 1/, 1],
      ['different broadcastVariables', /variable 0 is '.*\/y' .* on rank 0, but '.*\/x' .* on rank 1/, 1],
      [
        'different compression',
        /compression is dgc\(\{.*\}\) on rank 0, but noCompression\(\) on rank 1\. It must be the same on all ranks\./,
        1,
      ],
      [
        'different sparsity',
        /compression is dgc\(\{ sparsity: 0\.9,? .*\}\) on rank 0, but dgc\(\{ sparsity: 0\.5,? .*\}\) on rank 1/,
        1,
      ],
      ['different onNonFinite', /onNonFinite is 'error' on rank 0, but 'skip' on rank 1/, 1],
      ['different verifyEvery', /verifyEvery is 6 on rank 0, but 5 on rank 1/, 1],
      ['different optimizer', /optimizer is 'Adam' on rank 0, but 'SGD' on rank 1/, 1],
      ['different momentum', /momentum is 0.9 on rank 0, but 0.5 on rank 1/, 1],
      ['different nesterov', /nesterov is false on rank 0, but true on rank 1/, 1],
      ['different learningRate', /learningRate is 0.1 on rank 0, but 0.2 on rank 1/, 1],
    ])('%s: ERR_MODEL_MISMATCH on all, naming the first difference', (scenario, message, rank) => {
      const expected = { code: 'ERR_MODEL_MISMATCH', message: expect.stringMatching(message), details: { rank } };
      expect(valueOf(scenario)).toMatchObject(expected);
    });

    test('different initial weights: ERR_REPLICAS_DIVERGED; broadcastVariables heals it', () => {
      const { without, isRoots } = valueOf<{ without: Failure; isRoots: boolean }>('different initial weights');
      expect(without).toMatchObject({ code: 'ERR_REPLICAS_DIVERGED', details: { rank: 1 } });
      expect(without.message).toMatch(/rank 1 differ from those of rank 0 before the first step.*broadcastVariables/);
      expect(isRoots).toBe(true);
    });

    test('weights tampered with are found at the next verification', () => {
      const { early, last } = valueOf<{ early: Outcome[]; last: Failure }>('tampered');
      expect(early).toEqual([{}, {}, {}, {}]);
      expect(last).toMatchObject({ code: 'ERR_REPLICAS_DIVERGED', details: { rank: 1 } });
      expect(last.message).toMatch(/after step 4/);
    });
  });
});

// On other backends: test/slow/backends.test.ts.
describe.each([TEST_BACKEND ?? 'cpu'])('tensors on %s', backend => {
  interface Counts {
    readonly backend: string;
    readonly before: number;
    readonly sync: number[][];
    readonly async: number[][];
    readonly afterLoops: number;
    readonly fit: number[];
    readonly epochs: number[];
    readonly fits: number[];
    readonly after: number;
  }

  test('are as many after each step, and none is left after dispose()', () => {
    for (const counts of valuesOf<Counts>('tensor counts')) {
      expect(counts.backend).toBe(backend);
      for (const series of [...counts.sync, ...counts.async, counts.fit, counts.epochs, counts.fits]) {
        expect(series.length).toBeGreaterThan(1);
        expect(new Set(series).size).toBe(1);
      }
      expect(counts.afterLoops).toBe(counts.before);
      expect(counts.after).toBe(counts.before);
    }
  });
});

describe('wrong arguments are told in words', () => {
  let outcomes: Record<string, Failure>;
  beforeAll(() => {
    [outcomes] = valuesOf<Record<string, Failure>>('wrong arguments') as [Record<string, Failure>];
  });

  test.each([
    ['undefined', /ring\.wrap takes a tf\.Optimizer/],
    ['a name', /ring\.wrap takes a tf\.Optimizer/],
    ['wrapped twice', /wrapped already/],
    ['compression by name', /compression must be what dgc\(/],
    ['compression by function', /compression must be what dgc\(/],
    ['onNonFinite', /onNonFinite is 'ignore'; it must be 'error' or 'skip'/],
    ['verifyEvery', /verifyEvery is -1;/],
    ['half a verifyEvery', /verifyEvery is 0\.5;/],
    ['epoch', /epoch is -1;/],
    ['stepsPerEpoch', /stepsPerEpoch is 0\.5;/],
    ['weights', /each rank has a state of its own.*ring\.checkpoint/],
    [
      'the compression itself',
      /^ring\.wrap has no option 'kind'\. Pass the compression by its name: \{ compression: dgc/,
    ],
    ['a misspelt option of wrap', /^ring\.wrap has no option 'compresion'\. Did you mean compression\?/],
    ['no options of wrap', /^ring\.wrap takes its options as an object, not null/],
    ['an array of callbacks', /^ring\.callbacks takes options, not an array\. Pass your own callbacks beside it/],
    ['a callback', /^ring\.callbacks has no option 'onEpochEnd'\. Pass your own callbacks beside it.*also: \[yours\]/],
    ['also, but no array', /^also is not an array: pass \{ also: \[yours\] \}/],
    ['also nothing', /^also holds undefined/],
    ['a misspelt option of callbacks', /no option 'learningRateWarmup'\. Did you mean learningRateWarmUp\?/],
    ['a misspelt warm-up', /^learningRateWarmUp has no option 'step'\. Did you mean steps\?/],
    ['a misspelt option of connect', /^connect has no option 'timeout'\. Did you mean timeoutMs\?/],
    ['a misspelt option of dgc', /^dgc\(\) has no option 'sparcity'\. Did you mean sparsity\?/],
    ['a misspelt option of noCompression', /^noCompression\(\) has no option 'clip'\. Its options are clipNorm\./],
    ['a compressor that is not there', /^The compressor in \/none\.js cannot be loaded: Error: Cannot find module/],
    ['a misspelt option of allReduce', /has no option 'operation'\. Its options are op/],
    ['a reduction by name', /takes its options as an object, not 'mean'/],
    ['a misspelt option of allGather', /Did you mean variableLength\?/],
    ['a misspelt option of broadcast', /^ring\.broadcast has no option 'rot'\. Did you mean root\?/],
    ['a misspelt option of broadcastVariables', /^ring\.broadcastVariables has no option 'rot'\. Did you mean root\?/],
    ['a third array', /^ring\.shard takes x and y\. Put several inputs into an array/],
    ['no x', /^ring\.shard takes a dataset, or tensors.*It was given undefined and Tensor/s],
    ['no y', /^ring\.shard takes a dataset, or tensors.*and undefined/s],
    ['a misspelt option of shard', /^ring\.shard has no option 'chek'\. Did you mean check\?/],
    ['no validation', /^validation is undefined; it must be a fraction/],
    ['all validation', /^validation is 1; it must be a fraction that leaves some of the 4 rows/],
    ['a seed that is none', /^seed is 'x'; it must be a whole number/],
    ['nothing to verify', /^ring\.verifyReplicas takes a model or an array of variables, not undefined/],
    ['a tensor to verify', /^ring\.verifyReplicas takes a model or an array of variables; the array holds Tensor/],
    ['nothing to broadcast', /^ring\.broadcastVariables takes a model or an array of variables, not undefined/],
    ['nothing to average', /^ring\.averageVariables takes a model or an array of variables, not \{\}/],
    ['nothing to join', /^ring\.join takes a model that is compiled with ring\.wrap/],
    ['no checkpoint options', /^ring\.checkpoint\(model, \{ dir \}\) needs dir/],
    ['a checkpoint of an optimizer that is not wrapped', /^ring\.checkpoint takes a model that is compiled with/],
    [
      'another copy: momentum',
      /^The optimizer comes from another copy of @tensorflow\/tfjs.*npm ls @tensorflow\/tfjs-core.*npm install.*doctor/,
    ],
    ['another copy: adam', /^The optimizer comes from another copy of @tensorflow\/tfjs/],
    ['another copy: model', /^The model comes from another copy of @tensorflow\/tfjs/],
    ['another copy: callbacks', /^The model comes from another copy of @tensorflow\/tfjs/],
    ['another copy: callbacks among others', /^The model comes from another copy of @tensorflow\/tfjs/],
    ['another copy: checkpoint', /^ring\.checkpoint takes|^The model comes from another copy/],
    ['another copy: variable', /^The variable comes from another copy of @tensorflow\/tfjs/],
    ['a warm-up that is false', /^learningRateWarmUp is false; it must be true or \{ steps \}/],
    ['learningRateWarmUp', /learningRateWarmUp\.steps is 0;/],
    ['shard of nothing', /ring\.shard takes a dataset, or tensors/],
    ['shard of numbers', /ring\.shard takes a dataset, or tensors/],
    ['shard of no tensors', /ring\.shard takes a dataset, or tensors/],
    ['shard of a scalar', /same number of rows; these have no/],
    ['shard of no rows', /tensors without rows/],
    ['shard of uneven rows', /same number of rows; these have 4, 5/],
  ])('%s', (name, message) => {
    expect(outcomes[name]).toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(message) });
  });
});
