import type { BitAddress, CodecKernels, Quantization } from '../../src/kernels/codec-kernels';
import type { Pointer } from '../../src/kernels/kernels';

const ESCAPE = 20;
const MAGNITUDE_BITS = 0x7fffffff;
const LARGEST_FLOAT32 = 2 ** 128 - 2 ** 104;
const { fround } = Math;

/** The codecs' kernels in plain TypeScript, bit by bit: the meaning of {@link CodecKernels}, for tests, and slow. */
export function referenceCodecKernels(memory: WebAssembly.Memory): CodecKernels {
  const float32 = (at: Pointer, count: number) => new Float32Array(memory.buffer, at, count);
  const uint32 = (at: Pointer, count: number) => new Uint32Array(memory.buffer, at, count);

  const writeBits = (value: number, width: number, into: BitAddress): BitAddress => {
    const bytes = new Uint8Array(memory.buffer);
    for (let i = 0; i < width; i++) {
      const [byte, bit] = [Math.floor((into + i) / 8), (into + i) % 8];
      const set = Math.floor(value / 2 ** i) % 2;
      bytes[byte] = (bytes[byte]! & ~(1 << bit)) | (set << bit);
    }
    return into + width;
  };
  const readBits = (width: number, from: BitAddress): number => {
    const bytes = new Uint8Array(memory.buffer);
    let value = 0;
    for (let i = 0; i < width; i++) {
      value += ((bytes[Math.floor((from + i) / 8)]! >> ((from + i) % 8)) & 1) * 2 ** i;
    }
    return value;
  };

  const writeRice = (symbol: number, parameter: number, into: BitAddress): BitAddress => {
    const quotient = Math.floor(symbol / 2 ** parameter);
    let at = writeBits(symbol % 2 ** parameter, parameter, into);
    for (let i = 0; i < Math.min(quotient, ESCAPE); i++) at = writeBits(1, 1, at);
    return quotient < ESCAPE ? writeBits(0, 1, at) : writeBits(quotient, 32 - parameter, at);
  };
  const readRice = (parameter: number, from: BitAddress): { value: number; at: BitAddress } => {
    const remainder = readBits(parameter, from);
    let at = from + parameter;
    let quotient = 0;
    while (quotient < ESCAPE && readBits(1, at++) === 1) quotient++;
    if (quotient === ESCAPE) {
      quotient = readBits(32 - parameter, at);
      at += 32 - parameter;
    }
    return { value: quotient * 2 ** parameter + remainder, at };
  };

  const riceDecode: CodecKernels['riceDecode'] = (symbols, count, parameter, from, until) => {
    const into = uint32(symbols, count);
    let at = from;
    for (let i = 0; i < count; i++) {
      ({ value: into[i], at } = readRice(parameter, at));
      if (at > until) return -1;
    }
    return at;
  };

  /** One of so many values, in as few whole bits as may be: the first ones get the shorter codes. */
  const writeChoice = (value: number, choices: number, into: BitAddress): BitAddress => {
    const width = 31 - Math.clz32(choices);
    const short = 2 ** (width + 1) - choices;
    if (value < short) return writeBits(value, width, into);
    const at = writeBits(Math.floor((value + short) / 2), width, into);
    return writeBits((value + short) % 2, 1, at);
  };
  const readChoice = (choices: number, from: BitAddress): { value: number; at: BitAddress } => {
    const width = 31 - Math.clz32(choices);
    const short = 2 ** (width + 1) - choices;
    const value = readBits(width, from);
    if (value < short) return { value, at: from + width };
    return { value: 2 * value + readBits(1, from + width) - short, at: from + width + 1 };
  };
  const median = (span: number, left: number): number =>
    Math.max(1, Math.floor((span * 45426 + left * 32768 + 11356) / (left * 65536 + 22713)));

  /** Each a count of its own, so a parameter out of range is none. */
  const riceBits = (symbols: Uint32Array, p: number): number =>
    p < 0 || p > 31
      ? Infinity
      : symbols.reduce((bits, symbol) => bits + Math.min(ESCAPE + 32, (symbol >>> p) + 1 + p), 0);
  const riceParameter: CodecKernels['riceParameter'] = (symbols, count, mean, search) => {
    const all = uint32(symbols, count);
    let best = 0;
    let least = Infinity;
    const improves = (parameter: number): boolean => {
      // Of equally good ones that itself, then the one below.
      const tried = [parameter, parameter - 1, parameter + 1].map(p => ({ p, bits: riceBits(all, p) }));
      const found = tried.reduce((a, b) => (b.bits < a.bits ? b : a));
      if (found.bits >= least) return false;
      least = found.bits;
      best = found.p;
      return true;
    };
    const start = 31 - Math.clz32(Math.max(1, mean));
    improves(start);
    if (best > start) for (let p = start + 3; p <= 32 && improves(Math.min(31, p)); p += 3);
    const far = search === 'far';
    if (best < start || far) for (let p = start - 3; p > -2 && (improves(Math.max(0, p)) || far); p -= 3);
    return best;
  };

  return {
    writeBits,
    readBits,
    packBits(symbols, count, width, into) {
      return uint32(symbols, count).reduce((at, symbol) => writeBits(symbol, width, at), into);
    },
    unpackBits(symbols, count, width, from) {
      uint32(symbols, count).forEach((_, i, all) => (all[i] = readBits(width, from + i * width)));
      return from + count * width;
    },

    riceParameter,
    riceEncode(symbols, count, parameter, into) {
      return uint32(symbols, count).reduce((at, symbol) => writeRice(symbol, parameter, at), into);
    },
    riceDecode,
    riceDecodeBoth(count, a, b) {
      const ends = [a, b].map(({ symbols, parameter, from, until }) =>
        riceDecode(symbols, count, parameter, from, until),
      ) as [BitAddress, BitAddress];
      return ends.includes(-1) ? undefined : ends;
    },

    encodeClusters(symbols, count, small, parameter, into) {
      return uint32(symbols, count).reduce((at, symbol) => {
        if (symbol < 2 ** small) return writeBits(symbol, small, writeBits(0, 1, at));
        return writeRice(symbol - 2 ** small, parameter, writeBits(1, 1, at));
      }, into);
    },
    decodeClusters(symbols, count, small, parameter, from, until) {
      const into = uint32(symbols, count);
      let at = from;
      for (let i = 0; i < count; i++) {
        const far = readBits(1, at) === 1;
        const read = far ? readRice(parameter, at + 1) : { value: readBits(small, at + 1), at: at + 1 + small };
        into[i] = read.value + (far ? 2 ** small : 0);
        at = read.at;
        if (at > until) return -1;
      }
      return at;
    },
    countBelow(symbols, count, limit) {
      return uint32(symbols, count).filter(symbol => symbol < limit).length;
    },

    gapsOf(indices, count, first, gaps) {
      const from = uint32(indices, count);
      const into = uint32(gaps, count);
      for (let i = 0; i < count; i++) into[i] = from[i]! - (i === 0 ? first : from[i - 1]! + 1);
      return into.reduce((bits, gap) => bits | gap, 0) >>> 0;
    },
    indicesOf(gaps, count, first, elementCount, indices) {
      const from = uint32(gaps, count);
      const into = uint32(indices, count);
      let next = first;
      for (let i = 0; i < count; i++) {
        next += from[i]!;
        if (next >= elementCount) return -1;
        into[i] = next++;
      }
      return next;
    },

    encodeSubset(gaps, count, places, into) {
      let at = into;
      let free = places;
      uint32(gaps, count).forEach((distance, i) => {
        let gap = distance;
        const left = count - i;
        for (;;) {
          const half = median(free, left);
          const choices = free - left + 1;
          if (half >= choices) {
            at = writeChoice(gap, choices, at);
            break;
          }
          at = writeBits(gap < half ? 0 : 1, 1, at);
          if (gap < half) {
            at = writeChoice(gap, half, at);
            break;
          }
          gap -= half;
          free -= half;
        }
        free -= gap + 1;
      });
      return at;
    },
    decodeSubset(gaps, count, places, from, until) {
      const into = uint32(gaps, count);
      let at = from;
      let free = places;
      for (let i = 0; i < count; i++) {
        const left = count - i;
        let skipped = 0;
        for (let found = false; !found;) {
          const half = median(free, left);
          const choices = free - left + 1;
          if (half < choices && readBits(1, at++) === 1) {
            skipped += half;
            free -= half;
          } else {
            const { value, at: end } = readChoice(Math.min(half, choices), at);
            free -= value + 1;
            into[i] = skipped + value;
            at = end;
            found = true;
          }
          if (at > until) return -1;
        }
      }
      return at;
    },

    encodeBitmap(gaps, count, into) {
      let at = into;
      for (const gap of uint32(gaps, count)) {
        for (let i = 0; i < gap; i++) at = writeBits(0, 1, at);
        at = writeBits(1, 1, at);
      }
      return at;
    },
    decodeBitmap(gaps, count, span, from) {
      const places = Array.from({ length: span }, (_, i) => i).filter(i => readBits(1, from + i) === 1);
      if (places.length !== count) return -1;
      uint32(gaps, count).set(places.map((place, i) => place - (i === 0 ? 0 : places[i - 1]! + 1)));
      return from + span;
    },

    quantize(values, count, quantization, symbols) {
      const from = float32(values, count);
      const into = uint32(symbols, count);
      for (let i = 0; i < count; i++) {
        const negative = from[i]! < 0 || Object.is(from[i], -0);
        const magnitude = magnitudeIn(memory, quantization, Math.abs(from[i]!));
        const sent = absoluteOf(memory, quantization, magnitude);
        into[i] = 2 * magnitude + (negative ? 1 : 0);
        from[i] = negative ? -sent : sent;
      }
      return {
        smallest: into.reduce((a, b) => Math.min(a, b), 0xffffffff),
        largest: into.reduce((a, b) => Math.max(a, b), 0),
        sum: into.reduce((a, b) => a + b, 0),
      };
    },
    dequantize(symbols, count, quantization, values) {
      const from = uint32(symbols, count);
      const into = float32(values, count);
      if (from.some(symbol => symbol >>> 1 > largestIn(quantization))) return false;
      for (let i = 0; i < count; i++) {
        const absolute = absoluteOf(memory, quantization, from[i]! >>> 1);
        into[i] = from[i]! % 2 === 1 ? -absolute : absolute;
      }
      return true;
    },
    encodeSymbols(symbols, count, range, magnitudeBits, into) {
      const all = uint32(symbols, count);
      const [smallest, largest] = [range.smallest >>> 1, range.largest >>> 1];
      const mean = range.sum / count;
      const falling = 2 * largest - mean < mean - 2 * smallest;
      const base = falling ? largest : smallest;
      const original = all.slice();
      const distanceFrom = (symbol: number) => 2 * Math.abs((symbol >>> 1) - base) + (symbol % 2);
      all.set(original.map(distanceFrom));
      const parameter = riceParameter(symbols, count, falling ? 2 * largest - mean : mean - 2 * smallest, 'near');
      let at = writeBits(falling ? 1 : 0, 2, into);
      at = writeBits(parameter, 5, writeBits(base, magnitudeBits, at));
      at = all.reduce((next, symbol) => writeRice(symbol, parameter, next), at);

      const width = 32 - Math.clz32(2 * (largest - smallest) + 1);
      const fixedBits = 8 + magnitudeBits + width * count;
      const plainBits = 2 + (magnitudeBits + 1) * count;
      if (at - into <= Math.min(fixedBits, plainBits)) return at;
      if (plainBits <= fixedBits) {
        return original.reduce((next, symbol) => writeBits(symbol, magnitudeBits + 1, next), writeBits(3, 2, into));
      }
      at = writeBits(width, 6, writeBits(smallest, magnitudeBits, writeBits(2, 2, into)));
      return original.reduce((next, symbol) => writeBits(symbol - 2 * smallest, width, next), at);
    },
    largestMagnitude(values, count) {
      return uint32(values, count).reduce((largest, bits) => Math.max(largest, bits & MAGNITUDE_BITS), 0);
    },
    smallestMagnitude(values, count) {
      const magnitudes = uint32(values, count)
        .map(bits => bits & MAGNITUDE_BITS)
        .filter(magnitude => magnitude > 0);
      return magnitudes.length === 0 ? 0 : magnitudes.reduce((a, b) => Math.min(a, b));
    },

    raiseSymbols(symbols, count, magnitude) {
      uint32(symbols, count).forEach((symbol, i, all) => (all[i] = symbol + 2 * magnitude));
    },
    mirrorSymbols(symbols, count, magnitude) {
      uint32(symbols, count).forEach((symbol, i, all) => {
        all[i] = 2 * (magnitude - (symbol >>> 1)) + (symbol % 2);
      });
    },
  };
}

function largestIn({ format }: Quantization): number {
  return { float32: 0x7f7fffff, bfloat16: 0x7f7f, float16: 0x77ff, int8: 127, log4: 7 }[format];
}

/** The nearest whole number, halves to even. */
function nearest(x: number): number {
  const floor = Math.floor(x);
  if (x - floor !== 0.5) return Math.round(x);
  return floor % 2 === 0 ? floor : floor + 1;
}

function bitsOf(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0]!;
}

function float32Of(bits: number): number {
  return new Float32Array(Uint32Array.of(bits).buffer)[0]!;
}

function magnitudeIn(memory: WebAssembly.Memory, quantization: Quantization, absolute: number): number {
  const bound = (magnitude: number) => Math.min(magnitude, largestIn(quantization));
  switch (quantization.format) {
    case 'float32':
      return bitsOf(absolute);
    case 'bfloat16':
      return bound(nearest(bitsOf(absolute) / 2 ** 16));
    case 'float16': {
      const scaled = fround(absolute * 2 ** quantization.exponent);
      // The smallest float16 is 2⁻²⁴; from 2⁻¹⁴ on they have eleven bits.
      if (scaled < 2 ** -14) return nearest(fround(scaled * 2 ** -112) * 2 ** 136);
      return bound(nearest((bitsOf(scaled) - bitsOf(2 ** -14)) / 2 ** 13) + 2 ** 10);
    }
    case 'int8':
      return bound(nearest(fround(absolute / fround(quantization.scale))));
    case 'log4': {
      const levels = new Float32Array(memory.buffer, quantization.levels, 8);
      let level = 0;
      while (level < 7 && absolute > fround(fround(levels[level]! * 0.5) + fround(levels[level + 1]! * 0.5))) level++;
      return level;
    }
  }
}

function absoluteOf(memory: WebAssembly.Memory, quantization: Quantization, magnitude: number): number {
  switch (quantization.format) {
    case 'float32':
      return float32Of(magnitude);
    case 'bfloat16':
      return float32Of(magnitude * 2 ** 16);
    case 'float16': {
      const exponent = magnitude >> 10;
      const fraction = (magnitude % 2 ** 10) / 2 ** 10;
      const scaled = exponent === 0 ? fraction * 2 ** -14 : (1 + fraction) * 2 ** (exponent - 15);
      return fround(scaled * 2 ** -quantization.exponent);
    }
    case 'int8':
      return Math.min(fround(magnitude * fround(quantization.scale)), LARGEST_FLOAT32);
    case 'log4':
      return new Float32Array(memory.buffer, quantization.levels, 8)[magnitude]!;
  }
}
