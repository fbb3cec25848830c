#!/usr/bin/env node
// How many bytes a rank sends in the step of a sparse reduce-scatter, headers included, on average over the ranks. The
// ring is within this process, and the gradients are a tensor of which only the selected entries exist. So large rings
// fit on a small machine; its clock says nothing. Prints one JSON object for each ring. Use it after `npm run build`:
//   node scripts/scatter-bytes.js
//   node scripts/scatter-bytes.js --ranks 8,16 --elements 1000000 --density 0.01 --values log4
const { parseArgs } = require('node:util');
const { instantiateKernels } = require('../dist/kernels/wasm-kernels');
const { sharedMemory } = require('../dist/address-space');
const { tailEntries } = require('../dist/bench/tail-entries');
const { uniformNumbers } = require('../dist/bench/random');
const { CollectiveCall } = require('../dist/collectives/collective-call');
const { Observer } = require('../dist/observer');
const { Means, StepClock } = require('../dist/exchange/routes/route');
const { ScatterRoute } = require('../dist/exchange/routes/scatter');
const { opposite } = require('../dist/transport/ring-place');
const { encodeHeader, Operation, Purpose } = require('../dist/wire/frame');

const { values: given } = parseArgs({
  options: {
    ranks: { type: 'string', default: '4,16,64' },
    elements: { type: 'string', default: '25600000' },
    density: { type: 'string', default: '0.001' },
    values: { type: 'string', default: 'float16' },
  },
});

const elementCount = Number(given.elements);
const count = Math.ceil(elementCount * Number(given.density));
const format = /** @type {import('../dist/compression/value-format').ValueFormat} */ (given.values);

/** The paths of all ranks: a frame that one sends is at once with its neighbour. */
class Ring {
  bytesSent = 0;

  constructor(worldSize) {
    this.worldSize = worldSize;
    /** By rank and side: frames that wait, and a call that waits for one. */
    this.inboxes = Array.from({ length: worldSize }, () => ({ left: inbox(), right: inbox() }));
  }

  pathOf(rank) {
    const deliver = (side, frame) => {
      this.bytesSent += frame.headerBytes.length + frame.body.length;
      const to = (rank + (side === 'right' ? 1 : this.worldSize - 1)) % this.worldSize;
      const { frames, readers } = this.inboxes[to][opposite(side)];
      if (readers.length > 0) readers.shift()(frame);
      else frames.push(frame);
    };
    const identity = { ringId: 1n, generation: 0, worldSize: this.worldSize };
    return {
      media: [],
      send: async (side, header, body) => deliver(side, { header, headerBytes: encodeHeader(identity, header), body }),
      forward: async (side, frame) => deliver(side, frame),
      receive: side => {
        const { frames, readers } = this.inboxes[rank][side];
        return frames.length > 0 ? frames.shift() : new Promise(resolve => readers.push(resolve));
      },
    };
  }
}

function inbox() {
  return { frames: [], readers: [] };
}

/** What one rank has selected, in a memory that all share: each writes the same means to the gradient. */
function arenaOf(memory, kernels, rank) {
  const own = tailEntries(elementCount, count, uniformNumbers(1 + rank));
  const room = 4 * count;
  const indices = align(4 * elementCount) + 2 * rank * align(room);
  const values = indices + align(room);
  new Uint32Array(memory.buffer, indices, count).set(own.indices);
  new Float32Array(memory.buffer, values, count).set(own.values);
  const tensor = { number: 0, isWhole: false, elementCount, count, gradient: 0, indices, values };
  const none = { type: 'float32', data: 0, elementCount: 0 };
  return { memory, context: { kernels }, tensors: [tensor], wholeGradients: none, kept: [] };
}

function align(bytes) {
  return 16 * Math.ceil(bytes / 16);
}

async function bytesOf(worldSize) {
  const bytes = align(4 * elementCount) + 2 * worldSize * align(4 * count);
  const memory = sharedMemory(bytes, bytes, 'for the ranks');
  const kernels = instantiateKernels(memory);
  const route = new ScatterRoute(format); // it holds nothing while a rank waits
  const ring = new Ring(worldSize);
  const fingerprint = {
    ...{ operation: Operation.Exchange, purpose: Purpose.Call, elementType: 'float32', reduction: 'mean' },
    ...{ elementCount, parameter: 0 },
  };
  const ranks = Array.from({ length: worldSize }, async (_, rank) => {
    const path = ring.pathOf(rank);
    const transport = { rank, worldSize, observer: new Observer(), links: path, bulk: path };
    const call = new CollectiveCall(/** @type {any} */ ({ transport }), 1, /** @type {any} */ (fingerprint), path);
    const arenas = [arenaOf(memory, kernels, rank)];
    const step = {
      ...{ call, arenas, nonFiniteTensor: undefined, notices: 0, number: 0, sendsCounts: false },
      ...{ means: new Means(worldSize), clock: new StepClock(call, { tensors: 1 }) },
    };
    await route.carry(/** @type {any} */ (step));
  });
  await Promise.all(ranks);
  return Math.round(ring.bytesSent / worldSize);
}

(async () => {
  for (const ranks of given.ranks.split(',').map(Number)) {
    const bytes = await bytesOf(ranks);
    console.log(JSON.stringify({ ranks, elements: elementCount, density: Number(given.density), format, bytes }));
  }
})();
