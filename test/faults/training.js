// Two ranks train with the fault that FAULT names, and save a checkpoint, rank 1 to FULL_DISK; each tells what it
// raised.
const { existsSync, writeFileSync, writeSync } = require('node:fs');
const path = require('node:path');
const { connect, dgc } = require('../../dist/index.js');
const { tf } = require('../../dist/tensorflow/tfjs.js');

const raise = ({ code, message, details }) => {
  writeSync(1, `raised ${process.env.RANK} ${JSON.stringify({ code, message, ...details })}\n`);
  process.exitCode = 1;
};

/** Rank 0 makes it when it has done two steps: what rank 1 has sent in them has come. */
const HAS_COME = path.join(process.env.DISK, 'has-come');

const FAULTS = {
  none: () => undefined,
  'not finite': (i, w) => (i === 2 ? tf.fill(w.shape, NaN) : undefined),
  diverged: (i, w) => void (i === 2 && w.assign(tf.add(w, 1e-6))),
  killed: i => {
    if (i !== 2) return;
    while (!existsSync(HAS_COME));
    process.kill(process.pid, 'SIGKILL');
  },
};

async function main() {
  const ring = await connect();
  const w = tf.variable(tf.zeros([20_000]), true, 'w');
  const compression = dgc({ sparsity: 0.99, warmUpSteps: 5 });
  const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression, verifyEvery: 5 });
  const fault = FAULTS[process.env.FAULT];
  try {
    for (let i = 0; i < 20; i++) {
      if (ring.rank === 0 && i === 2) writeFileSync(HAS_COME, '');
      const bad = ring.rank === 1 ? fault(i, w) : undefined;
      optimizer.applyGradients({ w: bad ?? tf.ones(w.shape) });
    }
    const dir = ring.rank === 1 ? process.env.FULL_DISK : process.env.DISK;
    await ring.checkpoint({ variables: [w], optimizer }, { dir }).save();
    writeSync(1, 'saved\n');
  } catch (error) {
    raise(error);
  }
}

void main();
