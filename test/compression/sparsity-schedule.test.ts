import { type ChosenDgc, dgc } from '../../src/compression/dgc-options';
import { densityAt, sentCount } from '../../src/compression/sparsity-schedule';

/** The paper's, unless said otherwise. */
const paper = (options = {}) => dgc({ sparsity: 0.999, ...options });

/** The densities of the first epochs. */
function epochs(spec: ChosenDgc, count: number): number[] {
  return Array.from({ length: count }, (_, epoch) => densityAt(spec, { epoch, step: 1000 * epoch }));
}

describe('densityAt', () => {
  it('follows the paper: one stage an epoch, four epochs', () => {
    const densities = epochs(paper(), 6);
    expect(densities.slice(0, 4)).toEqual([0.25, 0.0625, 0.015625, 0.004]);
    expect(densities.slice(4)).toEqual([0.001, 0.001]); // and not 0.0010000000000000009
    expect(epochs(paper({ sparsity: 0.99, warmUpEpochs: 0 }), 1)).toEqual([0.01]);
  });

  it('spreads the stages evenly over other lengths', () => {
    expect(epochs(paper({ warmUpEpochs: 8 }), 8)).toEqual([
      0.25, 0.25, 0.0625, 0.0625, 0.015625, 0.015625, 0.004, 0.004,
    ]);
    expect(epochs(paper({ warmUpEpochs: 2 }), 2)).toEqual([0.25, 0.015625]);
    expect(epochs(paper({ warmUpEpochs: 1 }), 1)).toEqual([0.25]);
  });

  it('goes through all stages within fewer epochs, if it knows how many steps they have', () => {
    const at = (warmUpEpochs: number, step: number, stepsPerEpoch = 8) =>
      densityAt(paper({ warmUpEpochs }), { epoch: Math.floor(step / 8), step, stepsPerEpoch });
    const steps = (warmUpEpochs: number, count: number) =>
      Array.from({ length: count }, (_, step) => at(warmUpEpochs, step));
    expect(steps(1, 9)).toEqual([0.25, 0.25, 0.0625, 0.0625, 0.015625, 0.015625, 0.004, 0.004, 0.001]);
    expect(steps(3, 24).filter((density, i, all) => density !== all[i - 1])).toEqual([0.25, 0.0625, 0.015625, 0.004]);
    expect(steps(4, 32)).toEqual([0.25, 0.0625, 0.015625, 0.004].flatMap(density => Array(8).fill(density)));
    expect(at(1, 6, 100)).toBe(0.25);
    // Steps that do not fit the epoch, as in a second model.fit with other batches, leave stages out.
    expect(densityAt(paper({ warmUpEpochs: 2 }), { epoch: 1, step: 40, stepsPerEpoch: 8 })).toBe(0.015625);
  });

  it('has all five stages on the way to a smaller density, as far as there are epochs', () => {
    const sparsity = 1 - 2 ** -13;
    expect(epochs(dgc({ sparsity, warmUpEpochs: 5 }), 6)).toEqual([0.25, 0.0625, 0.015625, 0.004, 0.001, 2 ** -13]);
    expect(epochs(dgc({ sparsity }), 5)).toEqual([0.25, 0.0625, 0.015625, 0.004, 2 ** -13]);
  });

  it('has only the stages above a larger density', () => {
    expect(epochs(dgc({ sparsity: 0.99 }), 4)).toEqual([0.25, 0.25, 0.0625, 0.015625]);
    expect(epochs(dgc({ sparsity: 0.75 }), 5)).toEqual(Array(5).fill(0.25));
    expect(epochs(dgc({ sparsity: 0 }), 5)).toEqual(Array(5).fill(1));
    // 1 − 0.996 is a little more than the 0.004 of the list, and is the same stage.
    expect(new Set(epochs(dgc({ sparsity: 0.996 }), 9)).size).toBe(4);
  });

  it('counts steps where it was told to, and then needs no epoch', () => {
    const spec = paper({ warmUpSteps: 400 });
    const at = (step: number) => densityAt(spec, { epoch: undefined, step });
    expect([0, 99, 100, 200, 300, 399].map(at)).toEqual([0.25, 0.25, 0.0625, 0.015625, 0.004, 0.004]);
    expect(at(400)).toBeCloseTo(0.001, 15);
    expect(densityAt(spec, { epoch: 77, step: 0 })).toBe(0.25);
  });

  it('is dense throughout a dense warm-up', () => {
    const densities = epochs(paper({ warmUp: 'dense' }), 5);
    expect(densities.slice(0, 4)).toEqual([1, 1, 1, 1]);
    expect(densities[4]).toBeCloseTo(0.001, 15);
  });

  it('is final from the start without a warm-up', () => {
    for (const options of [{ warmUpEpochs: 0 }, { warmUpSteps: 0 }]) {
      expect(densityAt(dgc({ sparsity: 0.5, ...options }), { epoch: undefined, step: 0 })).toBe(0.5);
    }
  });

  it.each(['sparse', 'dense'] as const)('wants to know the epoch of a %s warm-up, and says how', warmUp => {
    let error: { code?: string; message?: string } = {};
    try {
      densityAt(paper({ warmUp }), { epoch: undefined, step: 3 });
    } catch (thrown) {
      error = thrown as typeof error;
    }
    expect(error).toMatchObject({ code: 'ERR_NO_EPOCH', details: { step: 3 } });
    for (const remedy of ['ring.callbacks()', 'setEpoch(epoch)', 'warmUpSteps']) {
      expect(error.message).toContain(remedy);
    }
  });
});

describe('sentCount', () => {
  it.each([
    [0, 0.5, 0],
    [1, 0.001, 1],
    [999, 0.001, 1],
    [1000, 0.001, 1],
    [1001, 0.001, 2],
    [1000, 1 - 0.999, 1],
    [2000, 1 - 0.999, 2],
    [2001, 1 - 0.999, 3],
    [100, 0.07, 7],
    [1000, 1 - 0.93, 70],
    [1_000_000, 1 - 0.999999, 1],
    [1_000_001, 1 - 0.999999, 2],
    [1_000_000_000, 1 - 0.999, 1_000_000],
    [1_000_000_001, 1 - 0.999, 1_000_001],
    [25_600_000, 1 - 0.999, 25_600],
    [1024, 0.25, 256],
    [1025, 0.25, 257],
    [7, 1, 7],
    [1_000_000_007, 1, 1_000_000_007],
    [10, 1e-300, 1],
  ])('of %i elements at density %d is %i', (elementCount, density, expected) => {
    expect(sentCount(elementCount, density)).toBe(expected);
  });
});
