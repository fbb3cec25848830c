import { chooseSparsity, densityAt } from '../../src/compression/sparsity-schedule';
import { dgc } from '../../src/compression/dgc-options';

const chosen = (steps: number | undefined, options = {}, correctsMomentum = true, step = 0) =>
  chooseSparsity(dgc(options), { steps, step, correctsMomentum });

test.each([
  [1, 0.75],
  [40, 0.75],
  [100, 0.9],
  [1_000, 0.99],
  [10_000, 0.999],
  [1_000_000, 0.999],
])('%d steps: a sparsity of %d', (steps, sparsity) => {
  expect(chosen(steps).sparsity).toBeCloseTo(sparsity, 12);
});

test('under 0.999 there is no warm-up; there it takes 4 % of the steps', () => {
  expect(chosen(9_000)).toMatchObject({ warmUpEpochs: 0, warmUpSteps: 0 });
  const long = chosen(20_000);
  expect(long).toMatchObject({ warmUpEpochs: 0, warmUpSteps: 800 });
  const densities = [0, 200, 799, 800].map(step => densityAt(long, { epoch: undefined, step }));
  expect(densities).toEqual([0.25, 0.0625, 0.004, 0.001]);
});

test('a warm-up that is given stays', () => {
  expect(chosen(100, { warmUpSteps: 7 })).toMatchObject({ warmUpEpochs: 0, warmUpSteps: 7 });
  expect(chosen(20_000, { warmUpEpochs: 0 })).toMatchObject({ warmUpEpochs: 0, warmUpSteps: 0 });
  expect(chosen(100, { warmUpEpochs: 2 })).toMatchObject({ warmUpEpochs: 2, warmUpSteps: 0 });
});

test('an unknown number of steps: less with each step, without a warm-up', () => {
  const densities = [0, 39, 99, 999, 9_999, 50_000].map(step => {
    const spec = chosen(undefined, {}, true, step);
    expect(spec).toMatchObject({ warmUpEpochs: 0, warmUpSteps: 0 });
    return densityAt(spec, { epoch: undefined, step });
  });
  expect(densities).toEqual([0.25, 0.25, 0.1, 0.01, 0.001, 0.001]);
});

test('an optimizer that applies the gradient itself: 0.75, however many steps', () => {
  for (const steps of [undefined, 20, 1_000_000]) {
    expect(chosen(steps, {}, false)).toMatchObject({ sparsity: 0.75, warmUpEpochs: 0, warmUpSteps: 0 });
  }
});

test('a sparsity that is given stays, with the paper’s warm-up and masking', () => {
  for (const correctsMomentum of [true, false]) {
    const given = chosen(20, { sparsity: 0.999 }, correctsMomentum);
    expect(given).toEqual(dgc({ sparsity: 0.999 }));
    expect(given).toMatchObject({ warmUpEpochs: 4, maskBelow: 1 });
  }
});

test('masking', () => {
  expect(dgc().maskBelow).toBe(0.05);
  expect(dgc({ masking: true }).maskBelow).toBe(1);
  expect(dgc({ sparsity: 0.9, masking: false }).maskBelow).toBe(0);
});
