#!/usr/bin/env node
// Exchanges the gradients of a model that is larger than most machines could train. It needs no TensorFlow: the
// gradients are synthetic, but really exchanged, and the updates of all ranks are compared. Ends with one JSON object
// on its standard output. Use it by hand, after `npm run build`. Each rank needs about 13 bytes of memory for each
// parameter.
//   npx gradring run -n 2 --no-prefix scripts/large-model.js
//   npx gradring run -n 2 --no-prefix scripts/large-model.js --arena-gib 2     in several arenas
//   node scripts/large-model.js --plan                                         only shows how models would be laid out
const { createHash } = require('node:crypto');
const { parseArgs } = require('node:util');
const { layArenas, MAX_ARENA_BYTES } = require('../dist/exchange/arena-layout');
const { Communicator } = require('../dist/communicator/communicator');
const { dgc, noCompression } = require('../dist/compression/dgc-options');

const GIB = 2 ** 30;
/** The length of the pattern that gradients repeat: a prime, so that it is shifted in each row and tensor. */
const PERIOD = 65_521;

const { values: given } = parseArgs({
  options: {
    parameters: { type: 'string', default: '300e6' },
    tensors: { type: 'string', default: '12' },
    sparsity: { type: 'string', default: '0.999' },
    steps: { type: 'string', default: '2' },
    'arena-gib': { type: 'string', default: '4' },
    plan: { type: 'boolean', default: false },
  },
});

const sparsity = Number(given.sparsity);
const arenaBytes = Number(given['arena-gib']) * GIB;

function model(parameters, tensors) {
  const rows = 1000;
  const columns = Math.round(parameters / tensors / rows);
  return Array.from({ length: tensors }, (_, i) => ({ name: `tensor-${i}`, shape: [rows, columns] }));
}

function describe(arenas) {
  const parameters = arenas.flatMap(arena => arena.tensors).reduce((sum, { elementCount }) => sum + elementCount, 0);
  const bytes = arenas.reduce((sum, arena) => sum + arena.bytes, 0);
  const sizes = arenas.map(arena => (arena.bytes / 1e9).toFixed(2)).join(' + ');
  return `${parameters / 1e6} M parameters, ${arenas.length} arena(s) of ${sizes} GB, ${(bytes / 1e9).toFixed(2)} GB, ${(bytes / parameters).toFixed(2)} bytes a parameter`;
}

function plan() {
  const compressions = {
    'dgc()': dgc(),
    'dgc({ sparsity: 0.999, warmUpEpochs: 0 })': dgc({ sparsity: 0.999, warmUpEpochs: 0 }),
    'noCompression()': noCompression(),
  };
  for (const [parameters, tensors] of [
    [25.6e6, 160],
    [300e6, 12],
    [1e9, 40],
  ]) {
    // prettier-ignore
    for (const [name, compression] of Object.entries(compressions)) {
      console.log(`${name}: ${describe(layArenas(model(parameters, tensors), compression, arenaBytes))}`);
    }
  }
  for (const [name, compression] of Object.entries(compressions)) {
    console.log(`${name}: the largest variable has ${(largestVariable(compression) / 1e6).toFixed(1)} M parameters`);
  }
}

function largestVariable(compression) {
  let [fits, fails] = [1000, MAX_ARENA_BYTES];
  while (fails - fits > 1000) {
    const middle = Math.floor((fits + fails) / 2);
    try {
      layArenas([{ name: 'largest', shape: [middle, 1] }], compression, MAX_ARENA_BYTES);
      fits = middle;
    } catch {
      fails = middle;
    }
  }
  return fits;
}

/** Fills a gradient with a different pattern for each rank, step and tensor. */
function fill(gradient, seed) {
  const pattern = Float32Array.from({ length: PERIOD }, (_, i) => Math.sin((i + 1) * (seed + 1)) * ((i * 7919) % 257));
  for (let at = 0; at < gradient.length; at += PERIOD) {
    gradient.set(at + PERIOD <= gradient.length ? pattern : pattern.subarray(0, gradient.length - at), at);
  }
}

const seconds = since => ((performance.now() - since) / 1000).toFixed(2);

async function main() {
  if (given.plan) return plan();
  const variables = model(Number(given.parameters), Number(given.tensors));
  const ring = await Communicator.connect({ timeoutMs: 600_000 });
  const say = words => ring.rank === 0 && console.error(words);
  const compression = dgc({ sparsity, warmUpEpochs: 0 });
  const { openExchange } = /** @type {any} */ (ring); // it is internal
  const exchange = openExchange.call(ring, { variables, compression, nesterov: false, arenaBytes });
  say(describe(exchange.plan.arenas));
  const arenas = exchange.plan.arenas.length;
  const stepSeconds = [];
  let sha256;
  for (let step = 0; step < Number(given.steps); step++) {
    const begin = performance.now();
    let sumOfSquares = 0;
    variables.forEach((_, i) => {
      fill(exchange.gradient(i), i + 31 * ring.rank + 1009 * step);
      sumOfSquares += exchange.sumOfSquares(i);
    });
    const filled = seconds(begin);
    await ring.barrier();
    const start = performance.now();
    const { nonFinite, bytesSent } = await exchange.start({
      density: 1 - sparsity,
      momentumFactor: 0.9,
      sumOfSquares,
    }).promise;
    const took = seconds(start);
    stepSeconds.push(Number(took));
    if (nonFinite !== undefined) throw new Error(`Tensor ${nonFinite.tensor} is not finite.`);
    const hash = createHash('sha256');
    let changed = 0;
    variables.forEach((_, i) => {
      const update = exchange.gradient(i);
      hash.update(update);
      for (let j = 0; j < update.length; j++) if (update[j] !== 0) changed++;
    });
    const hashes = (await ring.allGather(new Uint8Array(hash.digest()))).map(bytes =>
      Buffer.from(bytes).toString('hex'),
    );
    if (new Set(hashes).size !== 1) throw new Error(`The updates differ: ${hashes.join(', ')}`);
    sha256 = hashes[0].slice(0, 16);
    say(`step ${step}: exchanged in ${took} s (gradients filled in ${filled} s), ${bytesSent} bytes sent, ${changed} elements of the update are not 0, sha256 ${sha256} on all ${ring.worldSize} rank(s)`); // prettier-ignore
  }
  const peak = process.resourceUsage().maxRSS * 1024;
  exchange.close();
  await new Promise(resolve => setTimeout(resolve, 1000)); // the memory is unmapped in the background
  const memory = await ring.allGather(Float64Array.of(peak, process.memoryUsage.rss()));
  const [peakGb, closedGb] = [0, 1].map(i => Number((Math.max(...memory.map(each => each[i])) / 1e9).toFixed(2)));
  const row = {
    parameters: Number(given.parameters),
    ranks: ring.worldSize,
    arenas,
    stepSeconds,
    peakGb,
    closedGb,
    sha256,
  };
  if (ring.rank === 0) console.log(JSON.stringify(row));
  await ring.close();
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
