#!/usr/bin/env node
// Times the steps of one rank with several numbers of threads, by turns, on the tensors of ResNet-50, and the floor of
// `gradring bench compress` with as many threads, each of which has its part of the elements. Prints one JSON object
// for each density of DGC, and for low rank. Use it by hand, on a machine with no other work, after `npm run build`:
//   node scripts/performance/thread-times.js --threads 1,2 --density 0.25,0.001,lowRank --steps 20
const { parseArgs } = require('node:util');
const { isMainThread, Worker, workerData } = require('node:worker_threads');
const { sharedMemory } = require('../../dist/address-space');
const { GradientSource } = require('../../dist/bench/gradient-source');
const { MODELS } = require('../../dist/bench/models/models');
const { elementCountOf } = require('../../dist/bench/models/tensor-shape');
const { instantiateMeasuredKernels } = require('../../dist/bench/stream-floor');
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

/** The words that the threads of a floor share. */
const TURN = 0;
const DONE = 1;

/** The loop of `gradring bench compress` that reads and writes as much as a step must, by several threads. */
class Floor {
  words = new Int32Array(new SharedArrayBuffer(8));

  /** @param {number} threads */
  constructor(threads) {
    const count = 16 * Math.ceil(elementCountOf(MODEL) / threads / 16);
    const bytes = 12 * count * threads;
    const memory = sharedMemory(bytes, bytes, 'for the floor');
    const parts = Array.from({ length: threads }, (_, i) => ({ memory, start: 12 * count * i, count }));
    this.run = floorOf(parts[0]);
    this.helpers = parts.slice(1).map(part => new Worker(__filename, { workerData: { part, words: this.words } }));
  }

  /** In ms, until all threads are done. */
  time() {
    const { words, helpers } = this;
    Atomics.store(words, DONE, 0);
    const start = performance.now();
    Atomics.add(words, TURN, 1);
    Atomics.notify(words, TURN);
    this.run();
    for (let done; (done = Atomics.load(words, DONE)) < helpers.length;) Atomics.wait(words, DONE, done);
    return performance.now() - start;
  }
}

/** The loop over a part of the elements. */
function floorOf({ memory, start, count }) {
  const kernels = instantiateMeasuredKernels(memory);
  return () => kernels.streamFloor(start, start + 4 * count, start + 8 * count, count);
}

/** What a helper of a floor does. */
function help({ part, words }) {
  const run = floorOf(part);
  for (let turn = 0; ; turn++) {
    Atomics.wait(words, TURN, turn);
    run();
    Atomics.add(words, DONE, 1);
    Atomics.notify(words, DONE);
  }
}

/** @param {number} threads @param {number | undefined} density Of DGC. Undefined: low rank. */
function openExchange(threads, density, heap, scratch) {
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
  const heap = new SharedHeap();
  const scratch = heap.allocate(SCRATCH_BYTES);
  const source = new GradientSource('normal', elementCountOf(MODEL), 1);
  const counts = given.threads.split(',').map(Number);
  const floors = counts.map(threads => new Floor(threads));
  const gradient = new Float32Array(elementCountOf(MODEL));
  for (const name of given.density.split(',')) {
    const density = name === 'lowRank' ? undefined : Number(name);
    const exchanges = counts.map(threads => openExchange(threads, density, heap, scratch));
    const floorTimes = counts.map(() => []);
    for (let step = 0; step < WARM_UP + Number(given.steps); step++) {
      source.write(gradient, source.next());
      for (const [i, { run }] of exchanges.entries()) {
        const floorMs = floors[i].time();
        if (step >= WARM_UP) floorTimes[i].push(floorMs);
        await run(step, gradient);
      }
    }
    const rows = exchanges.map(({ threads, times }, i) => ({
      threads,
      floorMs: median(floorTimes[i]),
      ...Object.fromEntries(Object.entries(times).map(([part, all]) => [`${part}Ms`, median(all)])),
    }));
    for (const { exchange } of exchanges) exchange.close();
    console.log(JSON.stringify({ density: name, steps: Number(given.steps), rows }));
  }
  for (const { helpers } of floors) for (const helper of helpers) void helper.terminate();
}

if (isMainThread) void main();
else help(workerData);
