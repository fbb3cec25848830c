#!/usr/bin/env node
// The ranks of `gradring study`: all trainings of one workload, one after another. Rank 0 writes a line of JSON for
// each result to its standard output.
const { readFileSync } = require('node:fs');
const gradring = require('../..');
const { runExample } = require('./run-example');

const WORKLOADS = {
  digits: './study/digits',
  language: './study/language',
  'language-16': './study/language', // on 16 ranks
  'language-local': './study/language-local',
  'long-language': './study/long-language',
  speech: './study/speech',
};

async function main() {
  const { workload: name, quick, dataDir, trainings } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
  const workload = require(WORKLOADS[name]);
  const ring = await gradring.connect();
  const { tf } = await gradring.loadBackend({ backend: 'wasm' });
  const prepared = await workload.prepare(tf, { quick, dataDir, worldSize: ring.worldSize });
  // A compressor may have written a part of a line.
  const say = event => ring.rank === 0 && process.stdout.write(`\n${JSON.stringify(event)}\n`);
  for (const training of trainings) {
    say({ id: training.id, data: prepared.data, ...(await trainOnce(workload, prepared, { tf, ring, training })) });
  }
  await ring.close();
}

/** One training. If its gradients overflow, it ends without a score. */
async function trainOnce(workload, prepared, { tf, ring, training }) {
  const { wrap, isTuning, learningRate, seed, fold, partOffset } = training;
  const options = optionsOf(training, prepared.steps);
  const wrapOptions = { compression: compressionOf(training, options), ...wrap };
  /** @type {import('../..').RingOptimizer | undefined} */
  let optimizer;
  const wrapped = plain => (optimizer = ring.wrap(plain, wrapOptions));
  const curve = { step: [], loss: [], error: [], bytes: [], seconds: [] };
  const start = performance.now();
  const seconds = () => (performance.now() - start) / 1000;
  const report = point => {
    for (const [name, value] of Object.entries({ ...point, seconds: seconds() })) curve[name].push(value);
  };
  const before = new Set(Object.keys(tf.engine().registeredVariables));
  try {
    const part = (ring.rank + partOffset) % ring.worldSize;
    const inputs = { tf, ring, part, wrapped, isTuning, learningRate, seed, fold, report };
    const { examples, ...result } = await workload.train(prepared, inputs);
    return { options: { ...options, ...wrap }, ...result, curve, seconds: seconds(), examples: Array.from(examples) };
  } catch (error) {
    if (error.code !== 'ERR_NON_FINITE') throw error;
    const sent = { steps: curve.step.at(-1) ?? 0, bytesSent: curve.bytes.at(-1) ?? 0, denseBytes: 0 };
    const nothing = { score: null, logLoss: null, parameters: 0, examples: [] };
    return { options: { ...options, ...wrap }, ...nothing, ...sent, curve, seconds: seconds() };
  } finally {
    optimizer?.dispose();
    const left = Object.entries(tf.engine().registeredVariables).filter(([name]) => !before.has(name));
    for (const [, variable] of left) variable.dispose();
  }
}

/** The compression. Its random numbers, if it needs any, are those of the seed. */
function compressionOf({ method, module, seed }, options) {
  const make = given => (module ? gradring[method](module, given) : gradring[method](given));
  const compression = make(options);
  return 'seed' in compression ? make({ ...options, seed }) : compression;
}

/** The options of the compression. Some are given by the length of the training. */
function optionsOf({ options: { warmUp, ...options } }, steps) {
  return {
    ...options,
    ...(warmUp !== undefined && { warmUpSteps: Math.round(warmUp * steps) }),
    ...(options.steps === 'all' && { steps }),
  };
}

runExample(main);
