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
} satisfies Record<string, (columns: number, tensor: number) => Sender>;

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

const sumUp = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

const dot = (one: readonly number[], other: readonly number[]) =>
  one.reduce((sum, value, i) => sum + value * other[i]!, 0);

/** The sum over all ranks, of lists of columns. */
const sumOf = (ranks: readonly number[][][]) =>
  ranks[0]!.map((column, k) => column.map((_, i) => ranks.reduce((sum, own) => sum + own[k]![i]!, 0)));
