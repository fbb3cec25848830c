import * as tf from '@tensorflow/tfjs';
import { between, bool, type Case, f, type Input, int, int2, of, positive } from './case';

type Unary = (x: tf.Tensor) => tf.Tensor;

/** An operation of one tensor, with several ranks. */
function unary(compute: Unary, numbers: (...shape: number[]) => Input = f): Case[] {
  return [[], [7], [2, 3], [2, 1, 3], [1, 2, 2, 3], [2, 1, 2, 1, 3], [1, 2, 1, 2, 1, 2]].map(shape =>
    of(`[${shape}]`, [numbers(...shape)], compute),
  );
}

/** An operation of two tensors, with each side and both broadcast. */
function binary(
  compute: (a: tf.Tensor, b: tf.Tensor) => tf.Tensor,
  left: (...shape: number[]) => Input = f,
  right: (...shape: number[]) => Input = left,
): Case[] {
  const shapes: [number[], number[]][] = [
    [[], []], [[5], [5]], [[2, 3], [2, 3]], [[2, 3], []], [[], [2, 3]], [[2, 3], [3]], [[3], [2, 3]], [[2, 3], [2, 1]],
    [[2, 1], [1, 3]], [[2, 1, 3], [4, 1]], [[1, 1, 1], [2, 3]], [[2, 3, 2, 2], [3, 1, 2]], [[2, 1, 2, 1, 2], [3, 1, 2, 1]],
    [[1, 2, 1, 2, 1, 2], [2, 1, 2, 1, 2, 1]],
  ]; // prettier-ignore
  return shapes.map(([a, b]) => of(`[${a}], [${b}]`, [left(...a), right(...b)], compute));
}

const wide = between(-4, 4);

export const ELEMENTWISE: Record<string, Case[]> = {
  abs: unary(tf.abs),
  acos: unary(tf.acos, between(-0.9, 0.9)),
  acosh: unary(tf.acosh, between(1.2, 3)),
  asin: unary(tf.asin, between(-0.9, 0.9)),
  asinh: unary(tf.asinh, wide),
  atan: unary(tf.atan, wide),
  atanh: unary(tf.atanh, between(-0.9, 0.9)),
  ceil: unary(tf.ceil, wide),
  clone: unary(tf.clone),
  cos: unary(tf.cos, wide),
  cosh: unary(tf.cosh),
  elu: unary(tf.elu, wide),
  erf: unary(tf.erf, between(-2, 2)),
  exp: unary(tf.exp),
  expm1: unary(tf.expm1),
  floor: unary(tf.floor, wide),
  isFinite: unary(tf.isFinite),
  isInf: unary(tf.isInf),
  isNaN: unary(tf.isNaN),
  leakyRelu: [
    ...unary(tf.leakyRelu),
    of('alpha 0.3', [f(2, 3)], (x: tf.Tensor) => tf.leakyRelu(x, 0.3)),
    of('alpha 0', [f(2, 3)], (x: tf.Tensor) => tf.leakyRelu(x, 0)),
  ],
  log: unary(tf.log, positive),
  log1p: unary(tf.log1p),
  logSigmoid: unary(tf.logSigmoid, wide),
  neg: unary(tf.neg),
  onesLike: unary(tf.onesLike),
  reciprocal: unary(tf.reciprocal, positive),
  relu: unary(tf.relu),
  relu6: unary(tf.relu6, between(-3, 9)),
  round: unary(tf.round, wide),
  rsqrt: unary(tf.rsqrt, positive),
  selu: unary(tf.selu, wide),
  sigmoid: unary(tf.sigmoid, wide),
  sign: unary(tf.sign),
  sin: unary(tf.sin, wide),
  sinh: unary(tf.sinh),
  softplus: [...unary(tf.softplus, wide), of('large numbers', [between(-40, 40)(9)], (x: tf.Tensor) => tf.softplus(x))],
  sqrt: unary(tf.sqrt, positive),
  square: unary(tf.square),
  step: [...unary(tf.step), of('alpha 0.3', [f(2, 3)], (x: tf.Tensor) => tf.step(x, 0.3))],
  tan: unary(tf.tan),
  tanh: unary(tf.tanh, wide),
  zerosLike: unary(tf.zerosLike),
  cast: [
    of('float32 to float32', [f(2, 3)], (x: tf.Tensor) => tf.cast(x, 'float32')),
    of('to int32 and back', [wide(2, 3)], (x: tf.Tensor) => tf.cast(tf.cast(x, 'int32'), 'float32')),
    of('to bool', [wide(2, 3)], (x: tf.Tensor) => tf.cast(x, 'bool')),
  ],
  clipByValue: [
    ...unary(x => tf.clipByValue(x, -0.5, 0.4)),
    of('all within', [f(4)], (x: tf.Tensor) => tf.clipByValue(x, -2, 2)),
    of('all outside', [f(4)], (x: tf.Tensor) => tf.clipByValue(x, 2, 3)),
  ],

  add: binary(tf.add),
  addN: [
    of('of one', [f(2, 3)], (a: tf.Tensor) => tf.addN([a])),
    of('of three', [f(2, 3), f(2, 3), f(2, 3)], (...all: tf.Tensor[]) => tf.addN(all)),
  ],
  atan2: binary(tf.atan2),
  div: binary(tf.div, f, positive),
  divNoNan: binary(tf.divNoNan, f, positive),
  // Of floats it is int32 on cpu, and float32 on wasm and tfjs-node.
  floorDiv: binary((a, b) => tf.cast(tf.floorDiv(a, b), 'float32'), wide, positive),
  maximum: binary(tf.maximum, f, between(-1.1, 1.2)),
  minimum: binary(tf.minimum, f, between(-1.1, 1.2)),
  mod: [
    ...binary(tf.mod, between(0, 4), positive),
    of('negative dividends', [wide(9), positive(9)], (a: tf.Tensor, b: tf.Tensor) => tf.mod(a, b)),
    of('negative divisors', [wide(9), between(-2, -0.5)(9)], (a: tf.Tensor, b: tf.Tensor) => tf.mod(a, b)),
  ],
  mul: binary(tf.mul),
  pow: [
    ...binary(tf.pow, positive, between(-2, 2)),
    of('negative numbers, whole exponents', [between(-2, 2)(8)], (x: tf.Tensor) => tf.pow(x, tf.scalar(3))),
    of('integer exponent', [between(-2, 2)(8)], (x: tf.Tensor) => tf.pow(x, tf.scalar(2, 'int32'))),
  ],
  prelu: [
    of('alpha of the same shape', [f(2, 3), f(2, 3)], (x: tf.Tensor, a: tf.Tensor) => tf.prelu(x, a)),
    of('alpha of rows', [f(2, 3), f(2, 1)], (x: tf.Tensor, a: tf.Tensor) => tf.prelu(x, a)),
    of('alpha a scalar', [f(2, 3), f()], (x: tf.Tensor, a: tf.Tensor) => tf.prelu(x, a)),
    of('alpha of the second axis', [f(2, 3, 2, 2), f(3, 1, 2)], (x: tf.Tensor, a: tf.Tensor) => tf.prelu(x, a)),
    of('alpha of channels', [f(2, 3, 2, 4), f(4)], (x: tf.Tensor, a: tf.Tensor) => tf.prelu(x, a)),
    of('alpha of pixels', [f(2, 3, 2, 4), f(3, 2, 4)], (x: tf.Tensor, a: tf.Tensor) => tf.prelu(x, a)),
  ],
  squaredDifference: binary(tf.squaredDifference),
  sub: binary(tf.sub, f, between(-1.1, 1.2)),

  equal: [of('of floats', [f(2, 3), f(3)], (a: tf.Tensor, b: tf.Tensor) => tf.equal(a, b))],
  greater: [of('of floats', [f(2, 3), f(2, 3)], (a: tf.Tensor, b: tf.Tensor) => tf.greater(a, b))],
  greaterEqual: binary(tf.greaterEqual, f, between(-1.1, 1.2)),
  less: [of('of floats', [f(2, 3), f(2, 3)], (a: tf.Tensor, b: tf.Tensor) => tf.less(a, b))],
  logicalAnd: [of('of what is computed of the inputs', [f(4), f(4)], (a: tf.Tensor, b: tf.Tensor) => tf.logicalAnd(tf.greater(a, 0), tf.less(b, 0)))],
  logicalNot: [of('of what is computed of the input', [f(4)], (a: tf.Tensor) => tf.logicalNot(tf.greater(a, 0)))],
  logicalOr: [of('of what is computed of the inputs', [f(4), f(4)], (a: tf.Tensor, b: tf.Tensor) => tf.logicalOr(tf.greater(a, 0), tf.less(b, 0)))],
  logicalXor: [of('of what is computed of the inputs', [f(4), f(4)], (a: tf.Tensor, b: tf.Tensor) => tf.logicalXor(tf.greater(a, 0), tf.less(b, 0)))],
  lessEqual: [of('of floats', [f(2, 3), f(2, 3)], (a: tf.Tensor, b: tf.Tensor) => tf.lessEqual(a, b))],
  notEqual: [of('of floats', [f(2, 3), f(3)], (a: tf.Tensor, b: tf.Tensor) => tf.notEqual(a, b))],
  where: [
    of('same shapes', [f(2, 3), f(2, 3)], (a: tf.Tensor, b: tf.Tensor) =>
      tf.where(tf.reshape(bool(1, 0, 0, 1, 1, 0), [2, 3]), a, b),
    ),
    of('condition broadcast', [f(2, 3), f(2, 3)], (a: tf.Tensor, b: tf.Tensor) => tf.where(bool(1, 0, 1), a, b)),
    of('first broadcast', [f(3), f(2, 3)], (a: tf.Tensor, b: tf.Tensor) =>
      tf.where(tf.reshape(bool(1, 0, 0, 1, 1, 0), [2, 3]), a, b),
    ),
    of('second a scalar', [f(2, 3), f()], (a: tf.Tensor, b: tf.Tensor) =>
      tf.where(tf.reshape(bool(1, 0, 0, 1, 1, 0), [2, 3]), a, b),
    ),
    of('condition from the input', [f(2, 3)], (x: tf.Tensor) => tf.where(tf.greaterEqual(x, 0), x, tf.mul(x, 0.1))),
    of('condition from the input by greater', [f(2, 3)], (x: tf.Tensor) => tf.where(tf.greater(x, 0), x, tf.mul(x, 0.1))),
    of('rank 4', [f(1, 2, 2, 2), f(1, 2, 2, 2)], (a: tf.Tensor, b: tf.Tensor) =>
      tf.where(tf.reshape(bool(1, 0, 0, 1, 1, 0, 1, 0), [1, 2, 2, 2]), a, b),
    ),
  ],

  dropout: [
    of('rate 0.5', [f(4, 5)], (x: tf.Tensor) => tf.dropout(x, 0.5, undefined, 3)),
    of('rate 0', [f(4, 5)], (x: tf.Tensor) => tf.dropout(x, 0, undefined, 3)),
    of('noise shape', [f(4, 5)], (x: tf.Tensor) => tf.dropout(x, 0.5, [4, 1], 7)),
  ],
  complex: [of('and its real part', [f(2, 3), f(2, 3)], (a: tf.Tensor, b: tf.Tensor) => tf.real(tf.complex(a, b)))],
  real: [of('of a constant', [f(2, 3)], (x: tf.Tensor) => tf.mul(x, tf.real(tf.complex([1, 2, 3], [4, 5, 6]))))],
  imag: [of('of a constant', [f(2, 3)], (x: tf.Tensor) => tf.mul(x, tf.imag(tf.complex([1, 2, 3], [4, 5, 6]))))],

  // What gives indices, or takes integers: constant, so with a gradient of zero or none.
  argMax: [
    ...[0, 1, -1].map(axis => of(`axis ${axis}`, [f(3, 4)], (x: tf.Tensor) => tf.argMax(x, axis))),
    of('of negative numbers', [between(-2, -1)(3, 4)], (x: tf.Tensor) => tf.argMax(x, 1)),
    of('rank 4', [between(-2, -1)(1, 2, 3, 2)], (x: tf.Tensor) => tf.argMax(x, 2)),
  ],
  argMin: [
    ...[0, 1, -1].map(axis => of(`axis ${axis}`, [f(3, 4)], (x: tf.Tensor) => tf.argMin(x, axis))),
    of('of positive numbers', [positive(3, 4)], (x: tf.Tensor) => tf.argMin(x, 1)),
  ],
  oneHot: [
    of('of classes', [f(3, 4)], (x: tf.Tensor) => tf.mul(x, tf.oneHot(int(3, 0, 1), 4))),
    of('of ranks 2', [f(2, 2, 3)], (x: tf.Tensor) => tf.mul(x, tf.oneHot(int2([[2, 0], [1, 1]]), 3))), // prettier-ignore
    of('of what is computed of the input', [wide(3)], (x: tf.Tensor) => tf.oneHot(tf.cast(tf.abs(x), 'int32') as tf.Tensor1D, 4)),
  ],
}; // prettier-ignore
