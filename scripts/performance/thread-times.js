#!/usr/bin/env node
// Times the steps of one rank with several numbers of threads, by turns, on the tensors of ResNet-50. Prints one JSON
// object for each density of DGC, and for low rank. Use it by hand, on a machine with no other work, after
// `npm run build`:
//   node scripts/performance/thread-times.js --threads 1,2 --density 0.25,0.001,lowRank --steps 20
const { parseArgs } = require('node:util');
const { GradientSource } = require('../../dist/bench/gradient-source');
const { MODELS } = require('../../dist/bench/models/models');
const { elementCountOf } = require('../../dist/bench/models/tensor-shape');
const { CollectiveCall, SCRATCH_BYTES } = require('../../dist/collectives/collective-call');
const { lowRank } = require('../../dist/compression/compressors/custom-compression');
const { dgc } = require('../../dist/compression/dgc-options');
const { ExchangeHandle } = require('../../dist/exchange/exchange-handle');
const { GradientExchange, settingsOf } = require('../../dist/exchange/gradient-exchange');
const { instantiateKernels } = require('../../dist/kernels/wasm-kernels');
const { SharedHeap } = require('../../dist/memory/shared-heap');
const { SoloTransport } = require('../../dist/transport/transport');

const { values: given } = parseArgs({
  options: {
    threads: { type: 'string', default: '1,2' },
    density: { type: 'string', default: '0.25,0.0625,0.015625,0.004,0.001,lowRank' },
    steps: { type: 'string', default: '15' },
  },
});

/** Steps that are not timed: helpers start, and u and v reach their usual size. */
const WARM_UP = 10;
const MODEL = MODELS.resnet50;
const PARTS = ['compress', 'encode', 'decode'];

const heap = new SharedHeap();
const scratch = heap.allocate(SCRATCH_BYTES);
const source = new GradientSource('normal', elementCountOf(MODEL), 1);

/** @param {number} threads @param {number | undefined} density Of DGC. Undefined: low rank. */
function openExchange(threads, density) {
  const compression = density === undefined ? lowRank() : dgc({ sparsity: 1 - density, warmUpSteps: 0 });
  const nothing = () => undefined;
  /** @type {import('../../dist/exchange/exchange-handle').ExchangeInput} */
  const input = { variables: MODEL, compression, nesterov: false, route: 'sparse', threads };
  const line = { start: nothing, conclude: nothing, close: nothing };
  const handle = new ExchangeHandle(input, /** @type {any} */ (line));
  const transport = new SoloTransport();
  const exchange = new GradientExchange(transport, handle.plan);
  const context = { transport, kernels: instantiateKernels(heap.memory), memory: heap.memory, scratch };
  const times = Object.fromEntries([...PARTS, 'step'].map(part => [part, []]));
  const run = async (step, gradient) => {
    let at = 0;
    MODEL.forEach((tensor, v) => {
      const count = elementCountOf(tensor);
      handle.writeGradient(v, gradient.subarray(at, (at += count)));
    });
    const settings = { step, density: density ?? 1, momentumFactor: 0.9, sumOfSquares: 1 };
    const call = new CollectiveCall(context, 0, exchange.fingerprint(settingsOf(settings)), transport.links);
    const start = performance.now();
    const { timesMs } = await exchange.run(call, settings);
    if (step < WARM_UP) return;
    times.step.push(performance.now() - start);
    for (const part of PARTS) times[part].push(timesMs[part]);
  };
  return { threads, exchange, run, times };
}

const median = values => [...values].sort((a, b) => a - b)[values.length >> 1];

async function main() {
  const gradient = new Float32Array(elementCountOf(MODEL));
  for (const name of given.density.split(',')) {
    const density = name === 'lowRank' ? undefined : Number(name);
    const exchanges = given.threads.split(',').map(threads => openExchange(Number(threads), density));
    for (let step = 0; step < WARM_UP + Number(given.steps); step++) {
      source.write(gradient, source.next());
      for (const { run } of exchanges) await run(step, gradient);
    }
    const rows = exchanges.map(({ threads, times }) => ({
      threads,
      ...Object.fromEntries(Object.entries(times).map(([part, all]) => [`${part}Ms`, median(all)])),
    }));
    for (const { exchange } of exchanges) exchange.close();
    console.log(JSON.stringify({ density: name, steps: Number(given.steps), rows }));
  }
}

void main();
