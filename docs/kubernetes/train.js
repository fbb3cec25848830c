// A training for the pods of job.yaml.
const { writeFileSync } = require('node:fs');
const { connect, loadBackend } = require('gradring');

const ALIVE = process.env.ALIVE_FILE ?? '/tmp/alive'; // for the probes
const CHECKPOINTS = process.env.CHECKPOINTS ?? '/checkpoints';

async function main() {
  const ring = await connect();
  const { tf } = await loadBackend();

  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [8] })] });
  const optimizer = ring.wrap(tf.train.momentum(0.01, 0.9));
  model.compile({ optimizer, loss: 'meanSquaredError' });

  const x = tf.randomNormal([1024, 8], 0, 1, 'float32', 7); // the same on all ranks
  const y = x.sum(1, true);
  const isAlive = { onBatchEnd: () => writeFileSync(ALIVE, '') };
  const checkpoint = ring.checkpoint(model, { dir: CHECKPOINTS });
  const { epoch, step } = await checkpoint.resume(); // 0 if there is none yet
  console.log(`rank ${ring.rank} of ${ring.worldSize}: begins at epoch ${epoch}, step ${step}`);
  await model.fit(...ring.shard(x, y), {
    epochs: Number(process.env.EPOCHS ?? 20),
    initialEpoch: epoch,
    callbacks: ring.callbacks({ checkpoint, also: [isAlive] }),
    verbose: 0,
  });
  const loss = tf.losses.meanSquaredError(y, model.predict(x)).dataSync()[0];
  console.log(`rank ${ring.rank} of ${ring.worldSize}: loss ${loss.toFixed(4)}`);
  await ring.close();
}

main();
