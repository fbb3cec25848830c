import { methodOf } from '../../src/compression/compression-method';
import { lowRank, qsgd } from '../../src/compression/compressors/custom-compression';
import { dgc, type DgcOptions, gradientDropping, noCompression } from '../../src/compression/dgc-options';

describe('dgc()', () => {
  it('has the defaults of the paper, if the sparsity is given', () => {
    expect(dgc({ sparsity: 0.999 })).toEqual({
      kind: 'dgc',
      rescaleResiduals: false,
      perHost: false,
      sparsity: 0.999,
      steps: 0,
      warmUpEpochs: 4,
      warmUpSteps: 0,
      warmUp: 'sparse',
      clipNorm: undefined,
      clipAt: 'rank',
      denseBelow: 1024,
      maskBelow: 1,
      momentumCorrection: true,
      values: 'float16',
      route: 'auto',
    });
    expect(dgc()).toMatchObject({ sparsity: 'auto', warmUpEpochs: undefined, clipAt: 'auto' });
    expect(dgc({ sparsity: undefined, warmUpEpochs: undefined, clipNorm: undefined })).toEqual(dgc());
  });

  it('keeps what it is given', () => {
    const rates = { sparsity: 0, warmUpEpochs: 0, warmUp: 'dense' } as const;
    const options = { ...rates, clipNorm: 2.5, denseBelow: 0, values: 'int8' } as const;
    expect(dgc(options)).toMatchObject(options);
  });

  it('counts the warm-up in steps instead of epochs', () => {
    expect(dgc({ warmUpSteps: 100 })).toMatchObject({ warmUpSteps: 100, warmUpEpochs: 0 });
    expect(dgc({ warmUpSteps: 0 })).toMatchObject({ warmUpSteps: 0, warmUpEpochs: 0 });
  });

  it('is frozen and survives the way to a thread', () => {
    expect(Object.isFrozen(dgc())).toBe(true);
    expect(structuredClone(dgc({ clipNorm: 1 }))).toEqual(dgc({ clipNorm: 1 }));
    expect(Object.isFrozen(noCompression())).toBe(true);
    expect(structuredClone(noCompression())).toEqual({ kind: 'none' });
  });

  it.each([
    [{ perHost: 1 }, /perHost is true or false, not 1/],
    [{ perHost: true, route: 'scatter' }, /with perHost the entries travel as a whole/],
    [{ perHost: true, route: 'any' }, /with perHost the entries travel as a whole/],
    [{ route: 'ring' }, /route is one of sparse, mixed, dense, scatter, any, not 'ring'/],
    [{ values: 'fp16' }, /values is one of float32, float16, bfloat16, int8, log4, not 'fp16'/],
    [{ sparsity: 1 }, /with 1 no gradient would ever be sent/],
    [{ sparsity: 1.5 }, /sparsity .* not 1\.5/],
    [{ sparsity: -0.1 }, /sparsity .* not -0\.1/],
    [{ sparsity: NaN }, /sparsity .* not NaN/],
    [{ sparsity: '0.9' }, /sparsity .* not '0\.9'/],
    [{ sparsity: null }, /sparsity .* not null/],
    [{ warmUpEpochs: -1 }, /warmUpEpochs .* not -1/],
    [{ warmUpEpochs: 1.5 }, /warmUpEpochs .* not 1\.5/],
    [{ warmUpEpochs: NaN }, /warmUpEpochs .* not NaN/],
    [{ warmUpEpochs: Infinity }, /warmUpEpochs .* not Infinity/],
    [{ warmUpEpochs: '4' }, /warmUpEpochs .* not '4'/],
    [{ warmUpSteps: -1 }, /warmUpSteps .* not -1/],
    [{ warmUpSteps: 0.5 }, /warmUpSteps .* not 0\.5/],
    [{ warmUpSteps: 10, warmUpEpochs: 1 }, /not both/],
    [{ warmUpSteps: 0, warmUpEpochs: 0 }, /not both/],
    [{ warmUp: 'none' }, /warmUp is 'sparse' or 'dense', not 'none'/],
    [{ warmUp: 4 }, /its length is warmUpEpochs or warmUpSteps/],
    [{ clipNorm: 0 }, /clipNorm .* not 0/],
    [{ clipNorm: -1 }, /clipNorm .* not -1/],
    [{ clipNorm: NaN }, /clipNorm .* not NaN/],
    [{ clipNorm: Infinity }, /clipNorm .* not Infinity/],
    [{ clipNorm: true }, /clipNorm .* not true/],
    [{ denseBelow: -1 }, /denseBelow .* not -1/],
    [{ denseBelow: 10.5 }, /denseBelow .* not 10\.5/],
    [{ ratio: 0.01 }, /no option 'ratio'\. Its options are sparsity, /],
    [0.999, /takes its options as an object, not 0\.999/],
    [null, /takes its options as an object, not null/],
    [[], /takes its options as an object, not \[\]/],
    [{ steps: 1.5 }, /steps .* not 1\.5/],
    [{ steps: 100, sparsity: 0.9 }, /either sparsity or steps, by which sparsity is chosen/],
    [{ masking: 'no' }, /masking is true or false, not 'no'/],
  ])('refuses %j', (options, words) => {
    let error: unknown;
    try {
      dgc(options as unknown as DgcOptions);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(words) });
  });
});

describe('what clipNorm clips', () => {
  const [byRank, byMean] = [{ rank: 5, mean: undefined }, { rank: 50, mean: 5 }]; // prettier-ignore

  it.each([
    [noCompression({ clipNorm: 5 }), 0.9, { rank: undefined, mean: 5 }],
    [dgc({ sparsity: 0.999, clipNorm: 5 }), 0, byRank],
    [dgc({ clipNorm: 5 }), 0.9, byRank],
    [dgc({ clipNorm: 5 }), 0, byMean],
    [dgc({ clipNorm: 5, clipAt: 'rank' }), 0, byRank],
    [dgc({ clipNorm: 5, clipAt: 'mean' }), 0.9, byMean],
    [qsgd({ clipNorm: 5 }), 0, byRank],
    [lowRank({ clipNorm: 5 }), 0.9, byMean],
    [lowRank({ clipNorm: 5, clipAt: undefined }), 0.9, byMean],
    [lowRank({ clipNorm: 5, clipAt: 'rank' }), 0.9, byRank],
    [gradientDropping({ clipNorm: 5, clipAt: 'mean' }), 0.9, byMean],
    [lowRank(), 0.9, { rank: undefined, mean: undefined }],
  ])('%j with a momentum of %d: %j', (compression, momentum, norms) => {
    expect(methodOf(compression).clipNorms(momentum)).toEqual(norms);
  });
});

describe('lowRank()', () => {
  it('has defaults, and keeps what it is given', () => {
    expect(lowRank()).toMatchObject({ compressor: 'lowRank', options: { step: 0.7 }, clipAt: 'mean' });
    expect(lowRank({ rank: 4, step: 1, seed: 3 })).toMatchObject({ options: { rank: 4, step: 1 }, seed: 3 });
  });

  it.each([
    [{ rank: 0 }, /^lowRank\(\): rank is a whole number from 1 to 65535, not 0/],
    [{ step: 2 }, /^lowRank\(\): step is a number from 0\.01 to 1\.9, not 2/],
    [{ step: 0 }, /^lowRank\(\): step is a number from 0\.01 to 1\.9, not 0/],
    [{ step: '1' }, /^lowRank\(\): step is a number from 0\.01 to 1\.9, not '1'/],
    [{ clipAt: 'end' }, /^lowRank\(\): clipAt is 'rank' or 'mean', not 'end'/],
    [{ ranks: 4 }, /^lowRank\(\) has no option 'ranks'\. Did you mean rank\?/],
  ])('refuses %j', (options, message) => {
    expect(() => lowRank(options as never)).toThrow(message);
  });
});
