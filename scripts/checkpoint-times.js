#!/usr/bin/env node
// Times saving and resuming a checkpoint, and counts its bytes. In the background: how long the training waits, how
// long it takes until the checkpoint is complete, and by how much four steps of a training take longer in which it is
// written. Prints one JSON object. Use it by hand, after `npm run build`:
//   npx gradring run -n 1 scripts/checkpoint-times.js --parameters 25.6e6 --dir /some/disk --repeat 5
const { mkdtempSync, readdirSync, rmSync, statSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');
const { parseArgs } = require('node:util');
const { connect, dgc, loadBackend } = require('../dist');

const { values: given } = parseArgs({
  options: {
    backend: { type: 'string' },
    parameters: { type: 'string', default: '25.6e6' },
    variables: { type: 'string', default: '16' },
    dir: { type: 'string', default: tmpdir() },
    repeat: { type: 'string', default: '5' },
    batch: { type: 'string', default: '32' },
  },
});

/** Steps in which a checkpoint is written. */
const STEPS = 4;

async function main() {
  const backend = /** @type {import('../dist').BackendName} */ (given.backend);
  const { tf } = await loadBackend({ backend });
  const ring = await connect();
  const count = Number(given.variables);
  const rows = Math.round(Number(given.parameters) / count / 1000);
  const variables = Array.from({ length: count }, (_, i) =>
    tf.tidy(() => tf.variable(tf.randomNormal([rows, 1000], 0, 1, 'float32', i + 1), true, `w${i}`)),
  );
  const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: dgc({ warmUpEpochs: 0 }) });
  tf.tidy(() => optimizer.applyGradients(variables.map(w => ({ name: w.name, tensor: w.mul(0.01) }))));
  const dir = mkdtempSync(join(given.dir, 'checkpoint-times-'));
  const training = { variables, optimizer };
  const checkpoint = ring.checkpoint(training, { dir });
  const times = { save: [], resume: [], wait: [], complete: [] };
  let bytes = 0;
  for (let i = 0; i < Number(given.repeat); i++) {
    const start = performance.now();
    const path = await checkpoint.save();
    const saved = performance.now();
    await checkpoint.resume();
    times.save.push(Math.round(saved - start));
    times.resume.push(Math.round(performance.now() - saved));
    bytes = readdirSync(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
  }
  const inBackground = ring.checkpoint(training, { dir: join(dir, 'background'), every: 1, background: true });
  for (let i = 0; i < Number(given.repeat); i++) {
    const start = performance.now();
    await inBackground.afterStep();
    times.wait.push(Math.round(performance.now() - start));
    await inBackground.finish();
    times.complete.push(Math.round(performance.now() - start));
  }

  /** Trains four steps without a save, and four with one after the first of them, by turns. */
  async function train() {
    const x = tf.randomNormal([Number(given.batch), rows], 0, 1, 'float32', 99);
    const loss = () => tf.addN(variables.map(w => x.matMul(w).square().mean())).asScalar();
    const every = 2 * STEPS;
    const saving = ring.checkpoint(training, { dir: join(dir, 'training'), every, background: true });
    const steps = async saves => {
      const start = performance.now();
      for (let i = 0; i < STEPS; i++) {
        await optimizer.minimizeAsync(loss);
        if (saves) await saving.afterStep();
      }
      if (saves) await saving.finish();
      return performance.now() - start;
    };
    for (let step = 1; step < STEPS - 1; step++) await optimizer.minimizeAsync(loss); // one is taken already
    const results = { stepMs: [], laterMs: [] };
    for (let i = 0; i < Number(given.repeat); i++) {
      const without = await steps(false);
      results.stepMs.push(Math.round(without / STEPS));
      results.laterMs.push(Math.round((await steps(true)) - without));
    }
    return results;
  }
  const { stepMs, laterMs } = await train();
  rmSync(dir, { recursive: true });
  const parameters = count * rows * 1000;
  const background = { waitMs: times.wait, completeMs: times.complete, stepMs, laterMs };
  const row = { backend: tf.getBackend(), parameters, saveMs: times.save, resumeMs: times.resume, ...background };
  console.log(JSON.stringify({ ...row, bytesPerParameter: Number((bytes / parameters).toFixed(3)) }));
  await ring.close();
}

main();
