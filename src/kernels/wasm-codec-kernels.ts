import type { CodecKernels, Quantization } from './codec-kernels';

/** The codecs' part of what assembly/index.ts exports. Results that mean a u32 are signed: they need `>>> 0`. */
export interface CodecExports {
  writeBits: (value: number, width: number, into: number) => number;
  readBits: (width: number, from: number) => number;
  packBits: (symbols: number, count: number, width: number, into: number) => number;
  unpackBits: (symbols: number, count: number, width: number, from: number) => number;
  riceParameter: (symbols: number, count: number, mean: number, far: boolean) => number;
  riceEncode: (symbols: number, count: number, parameter: number, into: number) => number;
  riceDecode: (symbols: number, count: number, parameter: number, from: number, until: number) => number;
  riceDecodeBoth: (
    count: number,
    symbols: number,
    parameter: number,
    from: number,
    until: number,
    otherSymbols: number,
    otherParameter: number,
    otherFrom: number,
    otherUntil: number,
  ) => number;
  secondEnd: { value: number };
  encodeClusters: (symbols: number, count: number, small: number, parameter: number, into: number) => number;
  decodeClusters: (
    symbols: number,
    count: number,
    small: number,
    parameter: number,
    from: number,
    until: number,
  ) => number;
  countBelow: (symbols: number, count: number, limit: number) => number;
  gapsOf: (indices: number, count: number, first: number, gaps: number) => number;
  indicesOf: (gaps: number, count: number, first: number, elementCount: number, indices: number) => number;
  encodeSubset: (gaps: number, count: number, places: number, into: number) => number;
  decodeSubset: (gaps: number, count: number, places: number, from: number, until: number) => number;
  encodeBitmap: (gaps: number, count: number, into: number) => number;
  decodeBitmap: (gaps: number, count: number, span: number, from: number) => number;
  quantizeFloat32: (values: number, count: number, symbols: number) => number;
  quantizeFloat16: (values: number, count: number, exponent: number, symbols: number) => number;
  quantizeBfloat16: (values: number, count: number, symbols: number) => number;
  quantizeInt8: (values: number, count: number, scale: number, symbols: number) => number;
  quantizeLevels: (values: number, count: number, levels: number, symbols: number) => number;
  encodeSymbols: (
    symbols: number,
    count: number,
    smallest: number,
    largest: number,
    sum: number,
    magnitudeBits: number,
    into: number,
  ) => number;
  dequantizeFloat32: (symbols: number, count: number, values: number) => number;
  dequantizeFloat16: (symbols: number, count: number, exponent: number, values: number) => number;
  dequantizeBfloat16: (symbols: number, count: number, values: number) => number;
  dequantizeInt8: (symbols: number, count: number, scale: number, values: number) => number;
  dequantizeLevels: (symbols: number, count: number, levels: number, values: number) => number;
  largestMagnitude: (values: number, count: number) => number;
  smallestMagnitude: (values: number, count: number) => number;
  smallestSymbol: { value: number };
  largestSymbol: { value: number };
  raiseSymbols: (symbols: number, count: number, magnitude: number) => void;
  mirrorSymbols: (symbols: number, count: number, magnitude: number) => void;
}

/** The codecs' kernels of one instance of the module. */
export function codecKernels(wasm: CodecExports): CodecKernels {
  return {
    writeBits: wasm.writeBits,
    readBits: (width, from) => wasm.readBits(width, from) >>> 0,
    packBits: wasm.packBits,
    unpackBits: wasm.unpackBits,
    riceParameter: (symbols, count, mean, search) => wasm.riceParameter(symbols, count, mean, search === 'far'),
    riceEncode: wasm.riceEncode,
    riceDecode: wasm.riceDecode,
    riceDecodeBoth: (count, a, b) => {
      const first = wasm.riceDecodeBoth(
        count,
        a.symbols,
        a.parameter,
        a.from,
        a.until,
        b.symbols,
        b.parameter,
        b.from,
        b.until,
      );
      return first === -1 ? undefined : [first, wasm.secondEnd.value];
    },
    encodeClusters: wasm.encodeClusters,
    decodeClusters: wasm.decodeClusters,
    countBelow: (symbols, count, limit) => wasm.countBelow(symbols, count, limit) >>> 0,
    gapsOf: (indices, count, first, gaps) => wasm.gapsOf(indices, count, first, gaps) >>> 0,
    indicesOf: wasm.indicesOf,
    encodeSubset: wasm.encodeSubset,
    decodeSubset: wasm.decodeSubset,
    encodeBitmap: wasm.encodeBitmap,
    decodeBitmap: wasm.decodeBitmap,
    quantize: (values, count, quantization, symbols) => {
      const sum = quantize(wasm, values, count, quantization, symbols);
      return { smallest: wasm.smallestSymbol.value >>> 0, largest: wasm.largestSymbol.value >>> 0, sum };
    },
    encodeSymbols: (symbols, count, { smallest, largest, sum }, magnitudeBits, into) =>
      wasm.encodeSymbols(symbols, count, smallest, largest, sum, magnitudeBits, into),
    dequantize: (symbols, count, quantization, values) => {
      switch (quantization.format) {
        case 'float32':
          return wasm.dequantizeFloat32(symbols, count, values) !== 0;
        case 'float16':
          return wasm.dequantizeFloat16(symbols, count, quantization.exponent, values) !== 0;
        case 'bfloat16':
          return wasm.dequantizeBfloat16(symbols, count, values) !== 0;
        case 'int8':
          return wasm.dequantizeInt8(symbols, count, quantization.scale, values) !== 0;
        case 'log4':
          return wasm.dequantizeLevels(symbols, count, quantization.levels, values) !== 0;
      }
    },
    largestMagnitude: wasm.largestMagnitude,
    smallestMagnitude: wasm.smallestMagnitude,
    raiseSymbols: wasm.raiseSymbols,
    mirrorSymbols: wasm.mirrorSymbols,
  };
}

function quantize(
  wasm: CodecExports,
  values: number,
  count: number,
  quantization: Quantization,
  symbols: number,
): number {
  switch (quantization.format) {
    case 'float32':
      return wasm.quantizeFloat32(values, count, symbols);
    case 'float16':
      return wasm.quantizeFloat16(values, count, quantization.exponent, symbols);
    case 'bfloat16':
      return wasm.quantizeBfloat16(values, count, symbols);
    case 'int8':
      return wasm.quantizeInt8(values, count, quantization.scale, symbols);
    case 'log4':
      return wasm.quantizeLevels(values, count, quantization.levels, symbols);
  }
}
