import { GradientCodec, type TensorEntries } from '../../src/compression/gradient-codec';
import type { GradientStreams } from '../../src/compression/gradient-streams';
import { VALUE_FORMATS } from '../../src/compression/value-format';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import type { ExpectedTensor } from '../../src/wire/gradient-payload';
import { TABLES } from './payload-tables';
import { Random } from './random';

const PAGES = 64;
const LARGEST_FLOAT32 = 3.4028234663852886e38;

/** Ascending places of entries in a tensor; each shape is cheapest in another code. */
const PLACES: Record<string, (random: Random, count: number, elementCount: number) => number[]> = {
  uniform: (random, count, elementCount) => {
    const places: number[] = [];
    for (let next = 0; places.length < count; next++) {
      // The distance to the next one, near to geometric, with room left for all.
      const room = elementCount - next - (count - places.length);
      const mean = room / (count - places.length);
      next += Math.min(room, Math.floor(-mean * Math.log(1 - random.uniform())));
      places.push(next);
    }
    return places;
  },
  // Runs of neighbours, far from each other.
  clustered: (random, count, elementCount) => {
    const skip = Math.floor((elementCount - count) / Math.ceil(count / 12));
    return Array.from({ length: count }, (_, i) => i + skip * Math.floor(i / 12));
  },
  // Short gaps between runs: for so few long gaps Rice's code has no good parameter, and a bitmap is shorter.
  striped: (random, count, elementCount) => {
    const skip = Math.min(25, Math.floor((elementCount - count) / Math.ceil(count / 14)));
    return Array.from({ length: count }, (_, i) => i + skip * Math.floor(i / 14));
  },
  even: (random, count, elementCount) => {
    const step = Math.floor(elementCount / count);
    return Array.from({ length: count }, (_, i) => i * step);
  },
  // All at the end: a long first gap, and places for none but those that are left.
  last: (random, count, elementCount) => Array.from({ length: count }, (_, i) => elementCount - count + i),
};

/** Values; each shape is cheapest in another code. */
const VALUES: Record<string, (random: Random) => number> = {
  tail: random => (random.below(2) === 0 ? -1 : 1) * (3.3 - Math.log(1 - random.uniform()) / 3.3),
  normal: random => Math.sqrt(-2 * Math.log(1 - random.uniform())) * Math.cos(2 * Math.PI * random.uniform()),
  even: random => (random.below(2) === 0 ? -1 : 1) * (1 + random.uniform() / 64),
  zero: random => random.of([0, -0]),
  any: random => random.of([-1, 1]) * 2 ** (random.uniform() * 254 - 126),
  ends: random => random.of([LARGEST_FLOAT32, -LARGEST_FLOAT32, 2 ** -149, 2 ** -126, -0, 1]),
};

/** How many entries of each tensor a seed has, where the sender says. */
function countOf(random: Random, { elementCount, count }: ExpectedTensor): number {
  return count ?? Math.min(elementCount, random.of([0, 1, 16, 17, 300, elementCount]));
}

/** A payload, its format and table by their numbers. */
export interface PayloadSeed {
  readonly format: number;
  readonly table: number;
  readonly counts: readonly number[] | undefined;
  readonly streams: GradientStreams;
}

let made: PayloadSeed[] | undefined;

/** Payloads as ranks send them: every format, table, and shape of places and values, so that every code is there. */
export function payloadSeeds(): PayloadSeed[] {
  return (made ??= makeSeeds());
}

function makeSeeds(): PayloadSeed[] {
  const memory = new WebAssembly.Memory({ initial: PAGES, maximum: 65_536, shared: true });
  const kernels = instantiateKernels(memory);
  const seeds: PayloadSeed[] = [];
  VALUE_FORMATS.forEach((name, format) => {
    const random = new Random(2); // its own: the seeds of a format do not depend on those of others
    const codec = new GradientCodec(kernels, memory, name, 16);
    TABLES.forEach((tensors, table) => {
      const shapes = Math.max(Object.keys(PLACES).length, Object.keys(VALUES).length);
      // One of each table of large ones.
      const large = tensors.some(({ count = 0 }) => count > 10_000);
      for (let shape = 0; shape < (large ? 1 : shapes); shape++) {
        const entries = entriesOf(random, tensors, shape, memory, 16 + GradientCodec.workspaceBytes);
        const counts = tensors.every(({ count }) => count !== undefined)
          ? undefined
          : entries.map(({ count }) => count);
        const { indices, values, sectionEnds } = codec.encode(entries); // which the next call overwrites
        const streams = { indices: indices.slice(), values: values.slice(), sectionEnds };
        seeds.push({ format, table, counts, streams });
      }
    });
  });
  return seeds;
}

function entriesOf(
  random: Random,
  tensors: readonly ExpectedTensor[],
  shape: number,
  memory: WebAssembly.Memory,
  start: number,
): TensorEntries[] {
  const places = Object.values(PLACES)[shape % Object.keys(PLACES).length];
  const value = Object.values(VALUES)[shape % Object.keys(VALUES).length];
  let next = start;
  return tensors.map(tensor => {
    const { elementCount } = tensor;
    // All of 2³⁰ would not fit.
    const count = elementCount > 2 ** 25 ? (tensor.count ?? 40) : countOf(random, tensor);
    const indices = next;
    const values = indices + 16 * Math.ceil(count / 4);
    next = values + 16 * Math.ceil(count / 4);
    new Uint32Array(memory.buffer, indices, count).set(places(random, count, elementCount));
    const floats = new Float32Array(memory.buffer, values, count);
    for (let i = 0; i < count; i++) floats[i] = value(random);
    return { elementCount, count, indices, values };
  });
}
