import { tf } from '../tfjs';

type SoftmaxCrossEntropy = typeof tf.losses.softmaxCrossEntropy;

/**
 * Corrects the gradient of `tf.losses.softmaxCrossEntropy` with respect to the labels, for which tfjs 4.22 takes that
 * of the logits with the other sign. Results, and the gradient of the logits, are as they were, bit by bit.
 */
export function correctSoftmaxCrossEntropy(): void {
  const corrected = (...[labels, logits, weights, labelSmoothing = 0, reduction]: Parameters<SoftmaxCrossEntropy>) =>
    tf.tidy(() => {
      const [given, scores] = [tf.cast(labels, 'float32'), tf.cast(logits, 'float32')];
      tf.util.assertShapesMatch(given.shape, scores.shape, 'Error in softmaxCrossEntropy: ');
      const isSmoothed = labelSmoothing > 0;
      const classes = scores.shape[1]!;
      const smooth = () => tf.add(tf.mul(given, tf.sub(1, labelSmoothing)), tf.div(labelSmoothing, classes));
      const losses = entropies(isSmoothed ? smooth() : given, scores);
      return tf.losses.computeWeightedLoss(losses, weights, reduction);
    });
  tf.losses.softmaxCrossEntropy = corrected as SoftmaxCrossEntropy;
}

/** The cross entropy of each row. */
function entropies(labels: tf.Tensor, logits: tf.Tensor): tf.Tensor {
  const entropy = tf.customGrad((...args) => {
    const [labels, logits, save] = args as unknown as [tf.Tensor, tf.Tensor, tf.GradSaveFunc];
    const logSoftmax = tf.sub(logits, tf.logSumExp(logits, -1, true));
    save([labels, logSoftmax]);
    return {
      value: tf.sum(tf.neg(tf.mul(logSoftmax, labels)), -1),
      gradFunc: (dy: tf.Tensor, saved: tf.Tensor[]) => {
        const [labels, logSoftmax] = saved as [tf.Tensor, tf.Tensor];
        const each = tf.expandDims(dy, -1);
        return [tf.mul(each, tf.neg(logSoftmax)), tf.mul(each, tf.sub(tf.exp(logSoftmax), labels))];
      },
    };
  });
  return entropy(labels, logits);
}
