import { isAbsolute } from 'node:path';
import { inspect } from 'node:util';
import { type CustomCompression, LOW_RANK_STEP } from './compressors/custom-compression';
import { type Compression, dgc, type DgcCompression } from './dgc-options';

/**
 * A compression as a user may write it, with the options that are not the defaults: `dgc({ sparsity: 0.9 })`. It may
 * have come from another rank as JSON.
 */
export function describeCompression(compression: Compression): string {
  switch (compression.kind) {
    case 'none':
      return call('noCompression', { clipNorm: compression.clipNorm });
    case 'dgc':
      return call('dgc', optionsOfDgc(compression));
    case 'custom':
      return describeCustom(compression);
  }
}

function optionsOfDgc(given: DgcCompression): Record<string, unknown> {
  const { sparsity, momentumCorrection, warmUpEpochs, warmUpSteps, maskBelow } = given;
  const usual = dgc({ ...(sparsity !== 'auto' && { sparsity }), momentumCorrection });
  const isUsual = (name: keyof DgcCompression): boolean => given[name] === usual[name];
  const unlessUsual = (name: keyof DgcCompression) => (isUsual(name) ? undefined : given[name]);
  return {
    sparsity: sparsity === 'auto' ? undefined : sparsity,
    steps: unlessUsual('steps'),
    warmUpEpochs: warmUpSteps > 0 || isUsual('warmUpEpochs') ? undefined : warmUpEpochs,
    warmUpSteps: warmUpSteps > 0 ? warmUpSteps : undefined,
    warmUp: unlessUsual('warmUp'),
    clipNorm: unlessUsual('clipNorm'),
    clipAt: unlessUsual('clipAt'),
    rescaleResiduals: unlessUsual('rescaleResiduals'),
    denseBelow: unlessUsual('denseBelow'),
    masking: isUsual('maskBelow') ? undefined : maskBelow > 0,
    momentumCorrection: momentumCorrection ? undefined : false,
    values: unlessUsual('values'),
    route: unlessUsual('route'),
    perHost: unlessUsual('perHost'),
  };
}

function describeCustom({ compressor, options, clipNorm, clipAt, denseBelow, seed }: CustomCompression): string {
  const isLowRank = compressor === 'lowRank';
  const usualPlace = isLowRank ? 'mean' : 'rank';
  const common = {
    clipNorm,
    clipAt: clipAt === usualPlace ? undefined : clipAt,
    denseBelow: denseBelow === 1024 ? undefined : denseBelow,
    seed: seed || undefined,
  };
  const usual = isLowRank && options['step'] === LOW_RANK_STEP ? { step: undefined } : {};
  if (!isAbsolute(compressor)) return call(compressor, { ...options, ...usual, ...common });
  const own = Object.keys(options).length === 0 ? undefined : options;
  return call('customCompression', { options: own, ...common }, `'${compressor}'`);
}

function call(name: string, options: Readonly<Record<string, unknown>>, first?: string): string {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const second =
    Object.keys(given).length === 0 ? undefined : inspect(given, { depth: 4, compact: true, breakLength: Infinity });
  return `${name}(${[first, second].filter(part => part !== undefined).join(', ')})`;
}
