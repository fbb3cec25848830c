/**
 * TensorFlow.js, for the files of this folder: the very module that a user's `require` gives. `import * as tf` would,
 * compiled to CommonJS, make a copy of its thousand names in each file, which took over 10 ms of every rank's start.
 */
// eslint-disable-next-line @typescript-eslint/no-require-imports
export import tf = require('@tensorflow/tfjs');
