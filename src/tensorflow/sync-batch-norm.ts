import { checkOptions } from '../check-options';
import type { Communicator } from '../communicator/communicator';
import { invalidArgument } from '../errors';
import { tf } from './tfjs';

/** The configuration of `tf.layers.batchNormalization`. */
export type BatchNormalizationConfig = NonNullable<Parameters<typeof tf.layers.batchNormalization>[0]>;

/** What is used of tfjs's layer. */
interface BatchNormalization extends tf.layers.Layer {
  readonly axis: number;
  readonly epsilon: number;
  readonly momentum: number;
  readonly gamma?: { read(): tf.Tensor | null };
  readonly beta?: { read(): tf.Tensor | null };
  readonly movingMean: tf.LayerVariable;
  readonly movingVariance: tf.LayerVariable;
}

/** The names of a configuration. tfjs ignores all other names without a word. */
const CONFIG_NAMES: Readonly<Record<keyof BatchNormalizationConfig, true>> = {
  ...{ axis: true, momentum: true, epsilon: true, center: true, scale: true },
  ...{ betaInitializer: true, gammaInitializer: true, movingMeanInitializer: true, movingVarianceInitializer: true },
  ...{ betaConstraint: true, gammaConstraint: true, betaRegularizer: true, gammaRegularizer: true },
  ...{ inputShape: true, batchInputShape: true, batchSize: true, dtype: true, inputDType: true },
  ...{ name: true, trainable: true, weights: true },
};

const synchronised = new WeakSet<object>();

/** Whether a layer is of {@link syncBatchNormalization}, or has such a layer in it. */
export function hasSyncBatchNormalization(layer: tf.layers.Layer): boolean {
  const { layers = [], layer: wrapped } = layer as { layers?: tf.layers.Layer[]; layer?: tf.layers.Layer };
  const inner = wrapped === undefined ? layers : [...layers, wrapped];
  return synchronised.has(layer) || inner.some(hasSyncBatchNormalization);
}

type Call = (inputs: tf.Tensor | tf.Tensor[], options: { readonly training?: boolean }) => tf.Tensor | tf.Tensor[];

/**
 * A layer of tfjs's class for batch normalization that in training normalizes with the mean and the variance over the
 * batches of all ranks. See {@link Ring.batchNormalization}.
 */
export function syncBatchNormalization(communicator: Communicator, config: BatchNormalizationConfig): tf.layers.Layer {
  checkOptions('ring.batchNormalization', config, CONFIG_NAMES);
  if (communicator.isElastic) {
    throw invalidArgument(
      'ring.batchNormalization does not work in an elastic run, which may lose a rank within a layer. Use tf.layers.batchNormalization.',
    );
  }
  const layer = tf.layers.batchNormalization(config) as unknown as BatchNormalization;
  const infer: Call = layer.call.bind(layer);
  const call: Call = (inputs, options) => {
    const input = Array.isArray(inputs) ? inputs[0]! : inputs;
    return options.training === true ? tf.tidy(() => normalize(communicator, layer, input)) : infer(inputs, options);
  };
  synchronised.add(layer);
  return Object.assign(layer, { call });
}

/** Normalizes a batch in training, and follows its statistics, which are the same on all ranks. */
function normalize(communicator: Communicator, layer: BatchNormalization, input: tf.Tensor): tf.Tensor {
  const axis = layer.axis >= 0 ? layer.axis : layer.axis + input.rank;
  const others = input.shape.map((_, i) => i).filter(i => i !== axis);
  const size = input.shape[axis]!;
  const along = (values: tf.Tensor) => values.reshape(input.shape.map((_, i) => (i === axis ? size : 1)));

  const count = tf.tensor1d([input.size / size]);
  const totals = sumOverRanks(communicator, tf.concat([input.sum(others), count]));
  const allCount = totals.slice(size, 1);
  const mean = totals.slice(0, size).div(allCount);
  const centred = input.sub(along(mean));
  const variance = sumOverRanks(communicator, centred.square().sum(others)).div(allCount);
  follow(layer.movingMean, mean, layer.momentum);
  follow(layer.movingVariance, variance, layer.momentum);

  const [gamma, beta] = [layer.gamma?.read(), layer.beta?.read()];
  const scale = variance.add(layer.epsilon).rsqrt();
  const normed = centred.mul(along(gamma == null ? scale : scale.mul(gamma)));
  return beta == null ? normed : normed.add(along(beta));
}

/** A moving average takes a new value. */
function follow(average: tf.LayerVariable, value: tf.Tensor, momentum: number): void {
  tf.tidy(() => {
    const before = average.read();
    average.write(before.sub(before.sub(value).mul(1 - momentum)));
  });
}

/**
 * The sum of a tensor over all ranks. The mean loss of all ranks depends on a rank's part of it through the losses of
 * all, so that the gradient is a sum over all ranks, too.
 */
function sumOverRanks(communicator: Communicator, part: tf.Tensor): tf.Tensor {
  const sum = (tensor: tf.Tensor) =>
    tf.tensor(communicator.allReduceSync(tensor.dataSync<'float32'>().slice()), tensor.shape);
  return tf.customGrad(x => ({ value: sum(x as tf.Tensor), gradFunc: (dy: tf.Tensor) => sum(dy) }))(part);
}
