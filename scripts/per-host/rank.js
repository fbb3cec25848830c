// One rank of measure.sh: steps of dgc() with and without perHost. Rank 0 prints a line of JSON for each.
const { connect, dgc } = require('../../dist/core');

const SHAPES = { first: [1000, 1000], second: [2000, 1000], bias: [1000] };
const WARM_UP = 3;
const STEPS = 10;

async function main() {
  const ring = await connect();
  let seed = 7 + ring.rank;
  const noise = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647 - 0.5;
  const drawn = (/** @type {number} */ length) => Float32Array.from({ length }, noise);
  const gradient = { first: drawn(1_000_000), second: drawn(2_000_000), bias: drawn(1000) };
  for (const perHost of [false, true]) {
    const compression = dgc({ sparsity: 0.99, warmUpEpochs: 0, perHost });
    const gradients = ring.gradients(SHAPES, { compression, momentum: 0.9 });
    for (let step = 0; step < WARM_UP; step++) await gradients.step(gradient);
    const start = performance.now();
    for (let step = 0; step < STEPS; step++) await gradients.step(gradient);
    const stepMs = (performance.now() - start) / STEPS;
    if (ring.rank === 0) console.log(JSON.stringify({ perHost, stepMs: Math.round(stepMs) }));
  }
  await ring.close();
}

void main();
