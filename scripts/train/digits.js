#!/usr/bin/env node
// Trains a convolutional network on real handwritten digits, on all ranks of a ring, with Deep Gradient Compression and
// without, and compares the two. `npm start` runs it on four ranks, `npx gradring run -n 2 scripts/train/digits.js` on
// two.
const { writeFileSync } = require('node:fs');
const seedrandom = require('seedrandom');
const { connect, dgc, loadBackend, noCompression } = require('../..');
const { loadIdx } = require('./data/idx');
const { loadShippedDigits } = require('./data/optdigits');
const { digitsModel } = require('./digits-model');
const { parseOptions } = require('./digits-options');
const { clock } = require('./progress');
const { PROGRESS } = require('./progress-lines');
const { runExample } = require('./run-example');

const SPARSITY = 0.999;

const options = parseOptions(process.argv.slice(2));

async function main() {
  const ring = await connect();
  const say = line => ring.rank === 0 && console.log(line);
  const { tf, name: backend } = await loadBackend({ log: say });

  const { train, test, source } = options.dataDir === undefined ? loadShippedDigits(tf) : loadIdx(tf, options.dataDir);
  say(`Data: ${source}`);
  const [x, y] = ring.shard(train.x, train.y);
  const data = { x, y, test };
  say(
    `${ring.worldSize} ranks; ${train.x.shape[0]} training images, ${x.shape[0]} a rank; ${test.x.shape[0]} test images\n`,
  );

  const kinds = { dgc: dgc({ sparsity: SPARSITY, values: options.values }), dense: noCompression() };
  const results = { dgc: [], dense: [] };
  for (const seed of options.seeds) {
    for (const [kind, compression] of Object.entries(kinds)) {
      results[kind].push(await trainOnce(tf, ring, data, { kind, compression, seed, say }));
    }
  }
  report(ring, backend, results, say);
  await ring.close();
}

/** One training from the start. The seed determines all random numbers. */
async function trainOnce(tf, ring, { x, y, test }, { kind, compression, seed, say }) {
  seedrandom(`${seed} ${ring.rank}`, { global: true }); // model.fit shuffles with Math.random
  const optimizer = ring.wrap(tf.train.momentum(options.learningRate, 0.9), { compression });
  const model = digitsModel(tf, { imageShape: x.shape.slice(1), seed, optimizer });
  const start = performance.now();
  let warmUp; // the bytes sent before the full sparsity was reached

  const progress = {
    onEpochEnd(epoch, { loss, acc }) {
      const { steps, bytesSent, denseBytes, density } = optimizer.statistics;
      if (density > 1 - SPARSITY + 1e-9) warmUp = { bytesSent, denseBytes };
      const passedMs = performance.now() - start;
      const secondsLeft = ((passedMs / (epoch + 1)) * (options.epochs - epoch - 1)) / 1000;
      say(
        `${PROGRESS}${kind.padEnd(5)} seed ${seed}  epoch ${String(epoch + 1).padStart(2)}/${options.epochs}  loss ${loss.toFixed(4)}  ` +
          `accuracy ${percent(acc)}  ${(passedMs / steps).toFixed(1)} ms/step  ${clock(secondsLeft)} left  sent ${megabytes(bytesSent)}  ` +
          `compression ${ratio(denseBytes, bytesSent)}`,
      );
    },
  };
  await model.fit(x, y, {
    epochs: options.epochs,
    batchSize: options.batchSize,
    verbose: 0,
    callbacks: ring.callbacks({ also: [progress] }),
  });

  const seconds = (performance.now() - start) / 1000;
  const weightsHash = await ring.verifyReplicas(model); // throws if the weights of the ranks differ in a bit
  const [loss, accuracy] = model.evaluate(test.x, test.y).map(scalar => scalar.dataSync()[0]);
  const { steps, bytesSent, denseBytes } = optimizer.statistics;
  say(
    `${kind.padEnd(5)} seed ${seed}  test accuracy ${percent(accuracy)}, loss ${loss.toFixed(4)}; ${steps} steps in ` +
      `${seconds.toFixed(1)} s; sent ${megabytes(bytesSent)}; weights ${weightsHash.slice(0, 8)} on all ranks`,
  );
  const parameters = model.countParams();
  model.dispose();
  optimizer.dispose();
  const stepsAfterWarmUp = warmUp !== undefined && bytesSent > warmUp.bytesSent;
  const afterWarmUp = stepsAfterWarmUp ? (denseBytes - warmUp.denseBytes) / (bytesSent - warmUp.bytesSent) : undefined;
  return { accuracy, bytesSent, seconds, parameters, afterWarmUp };
}

function report(ring, backend, results, say) {
  const summary = kind => ({
    accuracy: mean(results[kind].map(result => result.accuracy)),
    bytesSentPerRank: sum(results[kind].map(result => result.bytesSent)),
    seconds: sum(results[kind].map(result => result.seconds)),
  });
  const dense = summary('dense');
  const compressed = summary('dgc');
  const compressionRatio = ring.worldSize > 1 ? dense.bytesSentPerRank / compressed.bytesSentPerRank : null;
  const ratios = results.dgc.flatMap(({ afterWarmUp }) => afterWarmUp ?? []);
  const afterWarmUp = ratios.length > 0 ? mean(ratios) : null; // undefined in a ring of one, or if the whole training is warm-up
  const { parameters } = results.dgc[0];
  // Each training has compared the weights of all ranks in every epoch and at its end. It throws if they differ.
  const json = {
    ranks: ring.worldSize,
    backend,
    seeds: options.seeds,
    epochs: options.epochs,
    parameters,
    dense,
    dgc: compressed,
    compressionRatio,
    compressionRatioAfterWarmUp: afterWarmUp,
    replicasIdentical: true,
  };
  const row = (name, ...cells) => say(`${name.padEnd(31)}${cells.map(cell => cell.padStart(14)).join('')}`);
  say('');
  row(`${parameters.toLocaleString('en')} parameters, ${ring.worldSize} ranks`, 'dense', `DGC ${SPARSITY * 100} %`);
  row(`test accuracy, mean of ${options.seeds.length}`, percent(dense.accuracy), percent(compressed.accuracy));
  row('sent by each rank', megabytes(dense.bytesSentPerRank), megabytes(compressed.bytesSentPerRank));
  if (compressionRatio !== null) {
    row('compression ratio, whole run', '1×', ratio(compressionRatio, 1));
    if (afterWarmUp !== null) row('compression ratio after warm-up', '1×', ratio(afterWarmUp, 1));
  }
  row('time', `${dense.seconds.toFixed(1)} s`, `${compressed.seconds.toFixed(1)} s`);
  row('weights of all ranks identical', 'yes', 'yes');
  if (options.json !== undefined && ring.rank === 0) {
    writeFileSync(options.json, `${JSON.stringify(json, null, 2)}\n`);
    say(`\nwritten to ${options.json}`);
  }
}

const sum = values => values.reduce((total, value) => total + value, 0);
const mean = values => sum(values) / values.length;
const percent = fraction => `${(fraction * 100).toFixed(2)} %`;
const megabytes = bytes => `${(bytes / 1e6).toFixed(1)} MB`;
const ratio = (dense, sent) => (sent > 0 ? `${(dense / sent).toFixed(1)}×` : '–');

runExample(main);
