/** Preloaded, makes TensorFlow.js compute with 64 bits on its CPU backend: all its arrays of floats are these. */
import { types } from 'node:util';

(globalThis as { Float32Array: unknown }).Float32Array = Float64Array;
types.isFloat32Array = types.isFloat64Array as never;
