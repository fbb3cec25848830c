// How long a step takes with and without `overlap: 1`, on paced links, where computing and exchanging take as long.
// `gradring run -n 2 --link-rate 100mbit scripts/overlap.js`
const yargs = require('yargs');
const { connect, loadBackend, noCompression } = require('../dist');

const SPEND = { sleep: sleepFor, compute: computeFor };

async function main() {
  const args = yargs(process.argv.slice(2))
    .scriptName('gradring run -n 2 --link-rate 100mbit scripts/overlap.js')
    .usage(
      '$0 [options]\n\nTimes the steps of a wrapped optimizer that exchanges while the next gradients are computed.',
    )
    .option('elements', { type: 'number', default: 1_000_000, describe: 'The size of the gradient' })
    .option('steps', { type: 'number', default: 10, describe: 'How many steps are timed, after two others' })
    .option('json', { type: 'boolean', default: false, describe: 'Print one JSON object a line' })
    .example('$0 --elements 500000', 'a smaller gradient')
    .strict()
    .parseSync();
  const { tf } = await loadBackend();
  const ring = await connect();
  const exchangeMs = await stepMs(ring, tf, args, { overlap: 0, spend: () => undefined });
  tell(ring, args, 'the exchange alone', exchangeMs);
  for (const [how, spend] of Object.entries(SPEND)) {
    for (const overlap of [0, 1]) {
      const ms = await stepMs(ring, tf, args, { overlap, spend: () => spend(exchangeMs) });
      tell(ring, args, `${how} for as long, overlap: ${overlap}`, ms, ms / exchangeMs);
    }
  }
  await ring.close();
}

/** The middle of the times of the steps, in ms: the longest of all ranks. */
async function stepMs(ring, tf, { elements, steps }, { overlap, spend }) {
  const w = tf.variable(tf.zeros([elements]), true);
  await ring.broadcastVariables([w]);
  const optimizer = ring.wrap(tf.train.sgd(0.1), { compression: noCompression(), overlap });
  const gradient = tf.ones([elements]);
  const times = [];
  for (let step = 0; step < steps + 2; step++) {
    const start = performance.now();
    spend();
    optimizer.applyGradients([{ name: w.name, tensor: gradient }]);
    if (step >= 2) times.push(performance.now() - start);
  }
  await optimizer.synchronize();
  tf.dispose([w, gradient]);
  optimizer.dispose();
  const middle = times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
  return (await ring.allReduce(Float64Array.of(middle), { op: 'max' }))[0];
}

/** As if another device computed. */
function sleepFor(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** Keeps the thread busy. */
function computeFor(ms) {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

function tell(ring, { json }, what, ms, ofExchange) {
  if (ring.rank !== 0) return;
  const ratio = ofExchange === undefined ? '' : `, ${ofExchange.toFixed(3)} of the exchange`;
  console.log(json ? JSON.stringify({ what, ms, ofExchange }) : `${what}: ${ms.toFixed(1)} ms${ratio}`);
}

void main();
