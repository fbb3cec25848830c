/**
 * TensorFlow.js, for the files of this folder: the same module as a user's `require` returns. `import * as tf`,
 * compiled to CommonJS, would copy its thousand names in each file, which took over 10 ms of every rank's start.
 */
// eslint-disable-next-line @typescript-eslint/no-require-imports
export import tf = require('@tensorflow/tfjs');
