/** Whether this is `npm run test:slow`: jest.slow.config.js sets it. */
export const isSlow = process.env['TEST_CASES'] === 'others';

/**
 * Cases of a test that takes long with all of them: `npm test` tries some, and `npm run test:slow` the others. The test
 * must be in the list of test/support/more-cases.js.
 *
 * ```ts
 * test.each(casesOf(['float16'], ['float32', 'int8']))('%s', values => …);
 * ```
 */
export function casesOf<T>(some: readonly T[], others: readonly T[]): readonly T[] {
  return isSlow ? others : some;
}

/** A test that `npm run test:slow` alone runs. It must be in that list, too. */
export const slowTest: (...args: Parameters<jest.It>) => void = isSlow ? test : () => undefined;

/** A test that has no more cases, in a file of that list: `npm run test:slow` skips it. */
export const quickTest = isSlow ? test.skip : test;

/** As {@link casesOf}: `npm test` tries those of which this is true. */
export function casesWhere<T>(isTried: (each: T) => boolean, all: readonly T[]): readonly T[] {
  return all.filter(each => isTried(each) !== isSlow);
}
