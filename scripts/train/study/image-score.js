/** The accuracy, the mean log-loss, and for each image 1 if it was recognized and 0 if not. */
function imageScore(tf, model, { x, y }) {
  const [hits, logLoss] = tf.tidy(() => {
    const probabilities = model.predict(x);
    const logLosses = probabilities.add(tf.backend().epsilon()).log().mul(y).sum(1).neg();
    return [probabilities.argMax(1).equal(y.argMax(1)).dataSync(), logLosses.mean().dataSync()[0]];
  });
  const examples = Float32Array.from(hits);
  return { score: examples.reduce((sum, hit) => sum + hit, 0) / examples.length, logLoss, examples };
}

module.exports = { imageScore };
