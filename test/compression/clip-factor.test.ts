import { clipFactor } from '../../src/compression/clipping';

describe('clipFactor', () => {
  it('leaves a gradient alone that is short enough, or when nothing is to be clipped', () => {
    expect(clipFactor({ sumOfSquares: 25, clipNorm: 5, worldSize: 1 })).toBe(1);
    expect(clipFactor({ sumOfSquares: 0, clipNorm: 5, worldSize: 1 })).toBe(1);
    expect(clipFactor({ sumOfSquares: 1e30, clipNorm: undefined, worldSize: 4 })).toBe(1);
  });

  it('shortens one that is too long to the norm', () => {
    expect(clipFactor({ sumOfSquares: 100, clipNorm: 5, worldSize: 1 })).toBe(0.5);
  });

  it('is a float32', () => {
    const factor = clipFactor({ sumOfSquares: 9, clipNorm: 1, worldSize: 1 });
    expect(factor).toBe(Math.fround(1 / 3));
  });

  it('lets local means be √N times as long', () => {
    expect(clipFactor({ sumOfSquares: 100, clipNorm: 5, worldSize: 4 })).toBe(1);
    expect(clipFactor({ sumOfSquares: 400, clipNorm: 5, worldSize: 4 })).toBe(0.5);
  });

  it.each([1, 2, 4, 7, 16])('clips as the paper does what %i ranks scaled by 1/N before', worldSize => {
    const clipNorm = 1.5;
    for (const norm of [0.1, 1, 3, 10, 100]) {
      // Lin et al.: each rank holds its mean gradient divided by N, and clips it to clipNorm · N^(−½).
      const scaledNorm = norm / worldSize;
      const paper = Math.min(1, (clipNorm * worldSize ** -0.5) / scaledNorm);
      expect(clipFactor({ sumOfSquares: norm ** 2, clipNorm, worldSize })).toBeCloseTo(paper, 6);
    }
  });
});
