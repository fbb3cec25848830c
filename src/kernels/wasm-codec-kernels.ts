import type { CodecKernels, Quantization } from './codec-kernels';

/** Kernels of the codecs that the module exports as they are. */
type Plain =
  | 'countBelow'
  | 'decodeBitmap'
  | 'decodeClusters'
  | 'decodeSubset'
  | 'encodeBitmap'
  | 'encodeClusters'
  | 'encodeSubset'
  | 'gapsOf'
  | 'indicesOf'
  | 'largestMagnitude'
  | 'mirrorSymbols'
  | 'packBits'
  | 'raiseSymbols'
  | 'readBits'
  | 'riceDecode'
  | 'riceEncode'
  | 'smallestMagnitude'
  | 'unpackBits'
  | 'writeBits';

/** The part of assembly/index.ts for the codecs. A result that is an i32 is signed: as a u32 it needs `>>> 0`. */
export interface CodecExports extends Pick<CodecKernels, Plain> {
  riceParameter: (symbols: number, count: number, mean: number, far: boolean) => number;
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
  smallestSymbol: { value: number };
  largestSymbol: { value: number };
}

/** The kernels of the codecs, for one instance of the module. */
export function codecKernels(wasm: CodecExports): CodecKernels {
  return {
    writeBits: wasm.writeBits,
    readBits: wasm.readBits,
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
    countBelow: wasm.countBelow,
    gapsOf: wasm.gapsOf,
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
