import { randomOf } from '../../../src/compression/compressors/random-of';

// What compressors send, in float64, slow and literal. The update is the sum over the ranks; if their gradients carry
// the factor 1/N, it is the mean.

const { abs, sqrt } = Math; // Jest makes every look-up of a global slow

/** What the receivers take for the values of one tensor, on each rank. */
export interface Sent {
  readonly sent: readonly number[][];
  /** By how much a magnitude may be wrong without another choice. Infinite if nothing is chosen. */
  readonly margin: number;
}

/** Called in each step with the values of all ranks. */
export type Sender = (values: readonly number[][], density: number, step: number) => Sent;

/** For the tensor with this number, whose last dimension has so many elements. */
export const SENDERS = {
  dgc: () => eachRank(largest),
  gradientDropping: () => eachRank(largest),
  oneBit: columns => eachRank(values => oneBit(values, columns)),
  ternGrad: (_, tensor) => ternGrad(tensor),
  qsgd: (_, tensor) => qsgd(tensor, { levels: 16, bucket: 512 }),
  powerSgd: columns => powerSgd(columns, 2),
  lowRank: (columns, tensor) => lowRank(columns, tensor, { rank: 2, step: 0.7 }),
} satisfies Record<string, (columns: number, tensor: number) => Sender>;

/** The same for tensors of one dimension and small ones, if they are not averaged as they are. */
export const SMALL_SENDERS: Partial<Record<keyof typeof SENDERS, Sender>> = {
  lowRank: (values, density) => eachRank(own => wholeNumbers(own, 0.7))(values, density, 0),
};

function eachRank(send: (values: number[], density: number) => { sent: number[]; margin: number }): Sender {
  return (values, density) => {
    const ranks = values.map(own => send(own, density));
    return { sent: ranks.map(({ sent }) => sent), margin: Math.min(...ranks.map(({ margin }) => margin)) };
  };
}

/** The k values with the largest magnitudes (Aji and Heafield 2017, Algorithm 1; Lin et al. 2018, Algorithm 1). */
function largest(values: readonly number[], density: number) {
  const order = values.map((_, i) => i).sort((a, b) => abs(values[b]!) - abs(values[a]!));
  const k = Math.ceil(values.length * density - 1e-9);
  const [last, next] = [abs(values[order[k - 1]!]!), abs(values[order[k]!]!)];
  const sent = values.map(() => 0);
  for (const i of order.slice(0, k)) sent[i] = values[i]!;
  return { sent, margin: (last - next) / last };
}

/** The mean of those values of its column that are on the same side of 0 (Seide et al. 2014, section 3). */
export function oneBit(values: readonly number[], columns: number) {
  const sent = values.map(() => 0);
  for (let column = 0; column < columns; column++) {
    const indices = [...values.keys()].filter(i => i % columns === column);
    for (const isPositive of [false, true]) {
      const group = indices.filter(i => values[i]! >= 0 === isPositive);
      const sum = group.reduce((sum, i) => sum + values[i]!, 0);
      for (const i of group) sent[i] = sum / group.length;
    }
  }
  return { sent, margin: Math.min(...values.map(abs)) };
}

/** The library's random numbers of a rank, by default. */
const randomFor = (step: number, tensor: number, rank: number) => randomOf(0, step, tensor, rank);

function ternGrad(tensor: number): Sender {
  return (values, _, step) => {
    const randoms = values.map((_, rank) => randomFor(step, tensor, rank));
    const { scale, signs, margin } = ternarized(values, randoms);
    return { sent: signs.map(own => own.map(sign => scale * sign)), margin };
  };
}

/**
 * −1, 0 or 1 for each value, at random, and their scale s: the largest of all ranks, clipped to 2.5 standard deviations
 * (Wen et al. 2017, section 3).
 */
export function ternarized(values: readonly number[][], randoms: readonly (() => number)[]) {
  const clipped = values.map(own => {
    const mean = sumUp(own) / own.length;
    const limit = 2.5 * sqrt(sumUp(own.map(value => (value - mean) ** 2)) / own.length);
    return own.map(value => Math.max(-limit, Math.min(limit, value)));
  });
  const scale = Math.max(...clipped.map(own => Math.max(...own.map(abs))));
  let margin = Infinity;
  const signs = clipped.map((own, rank) =>
    own.map(value => {
      const [share, drawn] = [abs(value) / scale, randoms[rank]!()];
      margin = Math.min(margin, abs(share - drawn));
      return drawn < share ? Math.sign(value) : 0;
    }),
  );
  return { scale, signs, margin };
}

function qsgd(tensor: number, sizes: { levels: number; bucket: number }): Sender {
  return (values, _, step) => {
    const ranks = values.map((own, rank) => quantized(own, sizes, randomFor(step, tensor, rank)));
    const sent = ranks.map(buckets =>
      buckets.flatMap(({ norm, rounded }) => rounded.map(l => (norm * l) / sizes.levels)),
    );
    return { sent, margin: Math.min(...ranks.flat().map(({ margin }) => margin)) };
  };
}

/** The norm of each bucket, and the level of each value, rounded at random (Alistarh et al. 2017, section 3.1). */
export function quantized(
  values: readonly number[],
  { levels, bucket }: { levels: number; bucket: number },
  random: () => number,
) {
  const starts = [...values.keys()].filter(i => i % bucket === 0);
  return starts.map(start => {
    const own = values.slice(start, start + bucket);
    const norm = sqrt(sumUp(own.map(value => value * value)));
    let margin = Infinity;
    const rounded = own.map(value => {
      const exact = (abs(value) / norm) * levels;
      const [low, drawn] = [Math.floor(exact), random()];
      margin = Math.min(margin, abs(exact - low - drawn) / Math.max(1, exact));
      return Math.sign(value) * (low + Number(drawn < exact - low));
    });
    return { norm, rounded, margin };
  });
}

/**
 * P̂Qᵀ for the matrix of each rank (Vogels et al. 2019, Algorithm 1), from the Q of the step before ("warm start"). P
 * and Q are lists of columns. The paper draws the first Q at random; here it is the library's.
 */
function powerSgd(columns: number, r: number): Sender {
  const random = randomOf(0, columns * r);
  const normal = () => Array.from({ length: 12 }, random).reduce((sum, value) => sum + value, -6);
  const drawn = Array.from({ length: columns * r }, normal);
  let q = Array.from({ length: r }, (_, k) => drawn.filter((_, i) => i % r === k));
  return values => {
    const matrices = values.map(own =>
      Array.from({ length: own.length / columns }, (_, i) => own.slice(i * columns, (i + 1) * columns)),
    );
    const p = sumOf(matrices.map(rows => q.map(column => rows.map(row => dot(row, column)))));
    p.forEach((column, k) => {
      for (const before of p.slice(0, k)) {
        const overlap = dot(column, before);
        before.forEach((value, i) => (column[i]! -= overlap * value));
      }
      const norm = sqrt(dot(column, column));
      column.forEach((value, i) => (column[i] = value / norm));
    });
    const qs = matrices.map(rows =>
      p.map(column => rows[0]!.map((_, j) => rows.reduce((sum, row, i) => sum + row[j]! * column[i]!, 0))),
    );
    q = sumOf(qs);
    const sent = qs.map((own, rank) =>
      matrices[rank]!.flatMap((row, i) =>
        row.map((_, j) => own.reduce((sum, column, k) => sum + p[k]![i]! * column[j]!, 0)),
      ),
    );
    return { sent, margin: Infinity };
  };
}

/** Each value as the nearest multiple of so many root mean squares; a scalar as it is. */
export function wholeNumbers(values: readonly number[], step: number) {
  const size = values.length === 1 ? Math.abs(values[0]!) : step * rootMeanSquare(values);
  const { rounded, margin } = roundedTo(size, values);
  return { sent: rounded.map(integer => size * integer), margin };
}

/**
 * The products of two factors of whole numbers, by the formulas of the docs. Matrices are lists of rows, and factors
 * lists of columns.
 */
function lowRank(columns: number, tensor: number, options: { rank: number; step: number }): Sender {
  return (values, _, step) => {
    const ranks = values.map((own, rank) => {
      const a = own.length / columns;
      const r = Math.min(options.rank, Math.floor((a * columns) / (2 * (a + columns))));
      if (r === 0) return wholeNumbers(own, options.step);
      const { factors, margin } = factorsOf(own, columns, { ...options, rank: r }, randomFor(step, tensor, rank));
      const sent = own.map((_, i) => sumUp(factors.map(({ p, q }) => p[Math.floor(i / columns)]! * q[i % columns]!)));
      return { sent, margin };
    });
    return { sent: ranks.map(({ sent }) => sent), margin: Math.min(...ranks.map(({ margin }) => margin)) };
  };
}

/** The columns that are sent: whole numbers p, and whole numbers times their scale q. */
export function factorsOf(
  values: readonly number[],
  columns: number,
  { rank, step }: { rank: number; step: number },
  random: () => number,
) {
  const rows = Array.from({ length: values.length / columns }, (_, i) => values.slice(i * columns, (i + 1) * columns));
  const transposed = rows[0]!.map((_, k) => rows.map(row => row[k]!));
  const times = (matrix: readonly number[][], vectors: readonly number[][]) =>
    vectors.map(vector => matrix.map(row => dot(row, vector)));
  const signBytes = Array.from({ length: Math.ceil((4 * Math.ceil(rows.length / 4)) / 8) }, () =>
    Math.floor(256 * random()),
  );
  const signed = rows.map((row, i) => row.map(value => ((signBytes[i >> 3]! >> (i & 7)) & 1 ? -value : value)));
  const sketch = Array.from({ length: rank }, (_, j) =>
    rows[0]!.map((_, k) => sumUp(signed.filter((_, i) => i % rank === j).map(row => row[k]!))),
  );
  const first = orthonormal(times(rows, sketch)).vectors;
  const second = orthonormal(times(transposed, first)).vectors;
  const { vectors, norms } = orthonormal(times(rows, second));
  const mean = rootMeanSquare(norms);
  let margin = Infinity;
  const steps: number[] = [];
  const left: number[][] = [];
  vectors.forEach((vector, j) => {
    const wanted = (step * mean) / norms[j]!;
    margin = Math.min(margin, abs(wanted - 2.5));
    if (wanted > 2.5) return;
    const own = Math.max(0.25, wanted);
    const { rounded, margin: here } = roundedTo(own / sqrt(rows.length), vector);
    margin = Math.min(margin, here);
    steps.push(own);
    left.push(rounded);
  });
  // X(P̂ᵀP̂) = MᵀP̂, by Gauss and Jordan.
  const projected = times(transposed, left);
  const system = left.map((one, j) => [...left.map(other => dot(one, other)), ...projected[j]!]);
  const solved = solve(system, left.length);
  const sizes = solved.map((column, j) => steps[j]! * rootMeanSquare(column));
  const smallest = Math.max(...sizes) / 63;
  const factors = solved.map((column, j) => {
    const multiple = Math.max(1, Math.round(sizes[j]! / smallest));
    margin = Math.min(margin, abs(0.5 - ((sizes[j]! / smallest) % 1)));
    const scale = smallest * multiple;
    const { rounded, margin: here } = roundedTo(scale, column);
    margin = Math.min(margin, here);
    return { p: left[j]!, q: rounded.map(integer => scale * integer) };
  });
  return { factors, margin };
}

function solve(system: number[][], n: number): number[][] {
  for (let j = 0; j < n; j++) {
    const pivot = system[j]![j]!;
    system[j] = system[j]!.map(value => value / pivot);
    for (let i = 0; i < n; i++) {
      if (i === j) continue;
      const factor = system[i]![j]!;
      system[i] = system[i]!.map((value, k) => value - factor * system[j]![k]!);
    }
  }
  return system.map(row => row.slice(n));
}

/** Gram and Schmidt, and what is left of each vector without those before it. */
function orthonormal(given: readonly number[][]) {
  const vectors: number[][] = [];
  const norms = given.map(vector => {
    let own = vector;
    for (const other of [...vectors, ...vectors]) {
      const overlap = dot(own, other);
      own = own.map((value, i) => value - overlap * other[i]!);
    }
    const norm = sqrt(dot(own, own));
    vectors.push(own.map(value => value / norm));
    return norm;
  });
  return { vectors, norms };
}

/** Values in steps, rounded, and how near the nearest is to the middle between two. */
function roundedTo(step: number, values: readonly number[]) {
  const exact = values.map(value => value / step);
  return {
    rounded: exact.map(value => Math.round(value)),
    margin: Math.min(...exact.map(value => abs(abs(value - Math.floor(value)) - 0.5))),
  };
}

const rootMeanSquare = (values: readonly number[]) => sqrt(sumUp(values.map(value => value * value)) / values.length);

const sumUp = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

const dot = (one: readonly number[], other: readonly number[]) =>
  one.reduce((sum, value, i) => sum + value * other[i]!, 0);

/** The sum over all ranks, of lists of columns. */
const sumOf = (ranks: readonly number[][][]) =>
  ranks[0]!.map((column, k) => column.map((_, i) => ranks.reduce((sum, own) => sum + own[k]![i]!, 0)));
