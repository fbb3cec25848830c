#!/usr/bin/env node
// Trains a convolutional network on real handwritten digits, on all ranks of a ring, with Deep Gradient Compression (or
// another compression) and without, and compares the two. `npm start` runs it on four ranks,
// `npx gradring run -n 2 scripts/train/digits.js` on two.
const { createHash } = require('node:crypto');
const { writeFileSync } = require('node:fs');
const seedrandom = require('seedrandom');
const { connect, loadBackend, noCompression } = require('../..');
const { compressionOf } = require('./compressions');
const { loadIdx } = require('./data/idx');
const { loadShippedDigits } = require('./data/optdigits');
const { digitsModel } = require('./digits-model');
const { parseOptions } = require('./digits-options');
const { keepToOneCore } = require('./one-core');
const { clock } = require('./progress');
const { PROGRESS } = require('./progress-lines');
const { ranksAlike } = require('./ranks-alike');
const { runExample } = require('./run-example');

const SPARSITY = 0.999;
/** Of the large network. */
const SIDE = 16;
const [MOST_TRAINED, MOST_TESTED] = [2000, 500];

const options = parseOptions(process.argv.slice(2));

async function main() {
  const ring = await connect();
  const say = line => ring.rank === 0 && console.log(line);
  const { tf, name: backend } = await loadBackend({ log: say });

  const { train, test, source } = options.dataDir === undefined ? loadShippedDigits(tf) : loadIdx(tf, options.dataDir);
  say(`Data: ${source}`);
  if (options.large) {
    const kept = await ring.allGather(Float32Array.of(Number(keepToOneCore(ring.rank))));
    if (kept.some(([isKept]) => isKept === 0)) say('Ranks share cores: there is no taskset, or no core for each.');
    Object.assign(train, fewImages(tf, train, MOST_TRAINED));
    Object.assign(test, fewImages(tf, test, MOST_TESTED));
  }
  const [x, y] = ring.shard(train.x, train.y);
  const data = { x, y, test };
  say(
    `${ring.worldSize} ranks; ${train.x.shape[0]} training images, ${x.shape[0]} a rank; ${test.x.shape[0]} test images\n`,
  );

  const { compression: name, values } = options;
  const compressions = { [name]: compressionOf(name, { values }), dense: noCompression() };
  if (options.large) await compileCode(tf, ring, data, options.methods.includes(name) ? compressions[name] : undefined);
  const trainings = [];
  for (const seed of options.seeds) {
    for (const method of options.methods) {
      const compression = compressions[method];
      trainings.push(await trainOnce(tf, ring, data, { method, compression, seed, say }));
    }
  }
  const result = resultOf(ring, backend, trainings);
  if (options.table) for (const line of tableOf(result)) say(line);
  if (options.json !== undefined && ring.rank === 0) {
    writeFileSync(options.json, `${JSON.stringify(result, null, 2)}\n`);
    if (options.table) say(`\nwritten to ${options.json}`);
  }
  await ring.close();
}

/** The first images, of at least 16 pixels in width and height: a step of the large network takes long. */
function fewImages(tf, { x, y }, most) {
  const [count, height, width] = x.shape;
  const [some, labels] = [x, y].map(tensor => tensor.slice(0, Math.min(count, most)));
  return { x: height < SIDE ? tf.image.resizeBilinear(some, [SIDE, Math.round((SIDE * width) / height)]) : some, y: labels }; // prettier-ignore
}

/** Takes steps of models that are thrown away. The first steps of a process are slower, until its code is compiled. */
async function compileCode(tf, ring, { x, y }, compression) {
  const fit = async (optimizer, count, epochs) => {
    const model = digitsModel(tf, { imageShape: x.shape.slice(1), large: options.large, seed: 1, optimizer });
    const [someX, someY] = [x, y].map(tensor => tensor.slice(0, count));
    await model.fit(someX, someY, { epochs, batchSize: count, verbose: 0 });
    tf.dispose([someX, someY]);
    model.dispose();
    optimizer.dispose();
  };
  const plain = () => tf.train.momentum(options.learningRate, 0.9);
  await fit(plain(), options.batchSize, 2);
  if (compression !== undefined) await fit(ring.wrap(plain(), { compression }), 4, 20);
}

/** One training from the start. The seed determines all random numbers. */
async function trainOnce(tf, ring, { x, y, test }, { method, compression, seed, say }) {
  seedrandom(`${seed} ${ring.rank}`, { global: true }); // model.fit shuffles with Math.random
  const optimizer = ring.wrap(tf.train.momentum(options.learningRate, 0.9), { compression });
  const model = digitsModel(tf, { imageShape: x.shape.slice(1), large: options.large, seed, optimizer });
  const evaluate = () => {
    const scalars = /** @type {import('@tensorflow/tfjs').Scalar[]} */ (model.evaluate(test.x, test.y));
    return scalars.map(scalar => scalar.dataSync()[0]);
  };
  let start = performance.now();
  let evaluationMs = 0;
  const secondsPassed = () => (performance.now() - start - evaluationMs) / 1000;
  const curve = []; // of rank 0
  /** @type {{ bytesSent: number, denseBytes: number } | undefined} Before the full sparsity was reached. */
  let warmUp;

  const progress = {
    onEpochBegin(epoch) {
      if (epoch === 0) start = performance.now(); // when all ranks have the weights
      // Else the accuracy would depend on where a short training happens to end.
      if (options.large) optimizer.learningRate = options.learningRate * (1 - epoch / options.epochs);
    },
    onEpochEnd(epoch, { loss }) {
      const { steps, bytesSent, denseBytes, density } = optimizer.statistics;
      if (density > 1 - SPARSITY + 1e-9) warmUp = { bytesSent, denseBytes };
      if (ring.rank !== 0) return;
      const seconds = secondsPassed();
      const evaluationStart = performance.now();
      const [testLoss, testAccuracy] = evaluate(); // the other ranks wait
      evaluationMs += performance.now() - evaluationStart;
      curve.push({ epoch: epoch + 1, steps, seconds, loss, testLoss, testAccuracy, bytesSent });
      const secondsLeft = (seconds / (epoch + 1)) * (options.epochs - epoch - 1);
      say(
        `${PROGRESS}${method.padEnd(5)} seed ${seed}  epoch ${String(epoch + 1).padStart(2)}/${options.epochs}  ${clock(secondsLeft)} left  ` +
          `${((seconds * 1000) / steps).toFixed(1)} ms/step  test accuracy ${percent(testAccuracy)}  loss ${loss.toFixed(4)}` +
          (ring.worldSize > 1 ? `  sent ${megabytes(bytesSent)}  compression ${ratio(denseBytes, bytesSent)}` : ''),
      );
    },
  };
  await model.fit(x, y, {
    epochs: options.epochs,
    batchSize: options.batchSize,
    verbose: 0,
    callbacks: ring.callbacks({ also: [progress] }),
  });

  const seconds = secondsPassed();
  const weightsHashes = await hashesOfRanks(ring, model);
  const [loss, accuracy] = evaluate();
  const { steps, bytesSent, denseBytes } = optimizer.statistics;
  say(
    `${method.padEnd(5)} seed ${seed}  test accuracy ${percent(accuracy)}, loss ${loss.toFixed(4)}; ${steps} steps in ${seconds.toFixed(1)} s` +
      (ring.worldSize > 1
        ? `; sent ${megabytes(bytesSent)}; weights ${weightsHashes[0].slice(0, 8)} on ${ranksAlike({ weightsHashes })} ranks`
        : ''),
  );
  const parameters = model.countParams();
  model.dispose();
  optimizer.dispose();
  const stepsAfterWarmUp = warmUp !== undefined && bytesSent > warmUp.bytesSent;
  const ratioAfterWarmUp = stepsAfterWarmUp
    ? (denseBytes - warmUp.denseBytes) / (bytesSent - warmUp.bytesSent)
    : undefined;
  return {
    method,
    seed,
    accuracy,
    loss,
    steps,
    bytesSent,
    seconds,
    parameters,
    ratioAfterWarmUp,
    weightsHashes,
    curve,
  };
}

/** The hash of the weights on each rank, as that rank has computed it. */
async function hashesOfRanks(ring, model) {
  const hash = createHash('sha256');
  for (const weight of model.getWeights()) hash.update(weight.dataSync());
  const all = await ring.allGather(new Uint8Array(hash.digest()));
  return all.map(bytes => Buffer.from(bytes).toString('hex'));
}

/** What the trainings of a ring have shown, for a program. */
function resultOf(ring, backend, trainings) {
  const summary = method => {
    const own = trainings.filter(training => training.method === method);
    if (own.length === 0) return undefined;
    return {
      accuracy: mean(own.map(({ accuracy }) => accuracy)),
      bytesSentPerRank: sum(own.map(({ bytesSent }) => bytesSent)),
      seconds: sum(own.map(({ seconds }) => seconds)),
      trainings: own,
    };
  };
  const dense = summary('dense');
  const compressed = summary(options.compression);
  const hasBoth = ring.worldSize > 1 && dense !== undefined && compressed !== undefined;
  const ratios = trainings.flatMap(({ ratioAfterWarmUp }) => ratioAfterWarmUp ?? []);
  return {
    ranks: ring.worldSize,
    backend,
    linkRate: process.env.GRADRING_LINK_RATE || null,
    seeds: options.seeds,
    epochs: options.epochs,
    parameters: trainings[0].parameters,
    dense,
    [options.compression]: compressed,
    compressionRatio: hasBoth ? dense.bytesSentPerRank / compressed.bytesSentPerRank : null,
    // null in a ring of one, or if the whole training is warm-up
    compressionRatioAfterWarmUp: ratios.length > 0 ? mean(ratios) : null,
    replicasIdentical: trainings.every(each => ranksAlike(each) === ring.worldSize),
  };
}

function tableOf({ ranks, seeds, parameters, dense, [options.compression]: compressed, ...result }) {
  const name = options.compression === 'dgc' ? `DGC ${SPARSITY * 100} %` : options.compression;
  const width = Math.max(14, name.length + 1);
  const summaries = [dense, compressed].filter(summary => summary !== undefined);
  const row = (title, ...cells) => `${title.padEnd(31)}${cells.map(cell => cell.padStart(width)).join('')}`;
  const rowOf = (title, cellOf) => row(title, ...summaries.map(cellOf));
  const { compressionRatio, compressionRatioAfterWarmUp } = result;
  return [
    '',
    rowOf(`${parameters.toLocaleString('en')} parameters, ${ranks} ranks`, summary =>
      summary === dense ? 'dense' : name,
    ),
    rowOf(`test accuracy, mean of ${seeds.length}`, ({ accuracy }) => percent(accuracy)),
    rowOf('sent by each rank', ({ bytesSentPerRank }) => megabytes(bytesSentPerRank)),
    compressionRatio !== null && row('compression ratio, whole run', '1×', ratio(compressionRatio, 1)),
    compressionRatio !== null &&
      compressionRatioAfterWarmUp !== null &&
      row('compression ratio after warm-up', '1×', ratio(compressionRatioAfterWarmUp, 1)),
    rowOf('time', ({ seconds }) => `${seconds.toFixed(1)} s`),
    rowOf('ranks with the same weights', ({ trainings }) => `${Math.min(...trainings.map(ranksAlike))} of ${ranks}`),
  ].filter(line => typeof line === 'string');
}

const sum = values => values.reduce((total, value) => total + value, 0);
const mean = values => sum(values) / values.length;
const percent = fraction => `${(fraction * 100).toFixed(2)} %`;
const megabytes = bytes => `${(bytes / 1e6).toFixed(1)} MB`;
const ratio = (dense, sent) => (sent > 0 ? `${(dense / sent).toFixed(1)}×` : '–');

runExample(main);
