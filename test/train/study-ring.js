// Trains a workload of the study, in its quick form, once for each of the seeds, and prints what each rank has:
// study-ring.js WORKLOAD LEARNING_RATE SEED…
const { connect, dgc, loadBackend } = require('../..');

async function main() {
  const [name, learningRate, ...seeds] = process.argv.slice(2);
  const workload = require(`../../scripts/train/study/${name}`);
  const { tf } = await loadBackend({ backend: 'wasm' });
  const ring = await connect();
  const prepared = await workload.prepare(tf, { quick: true, worldSize: ring.worldSize });
  const tensors = tf.memory().numTensors;
  const trainings = [];
  for (const seed of seeds) {
    const reports = [];
    let optimizer;
    const compression = dgc({ sparsity: 0.9, warmUpSteps: 10, clipNorm: 0.25 });
    const { examples, ...result } = await workload.train(prepared, {
      ...{ tf, ring, part: ring.rank, isTuning: false },
      ...{ seed: Number(seed), fold: 0, learningRate: Number(learningRate) },
      wrapped: plain => (optimizer = ring.wrap(plain, { compression })),
      report: report => reports.push(report),
    });
    optimizer.dispose();
    trainings.push({ ...result, examples: [...examples], reports });
  }
  const kept = tf.memory().numTensors - tensors;
  console.log(JSON.stringify({ name: workload.name, data: prepared.data, trainings, kept }));
  await ring.close();
}

main();
