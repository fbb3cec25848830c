import { tf } from './tfjs';
import type { Communicator } from '../communicator/communicator';
import { invalidArgument } from '../errors';
import type { Checkpoint } from './checkpoint';
import type { FitPosition } from './checkpoint-state';
import { LiveTraining } from './live-training';
import {
  averageVariables,
  broadcastVariables,
  checkSameVariables,
  type Variables,
  variablesOf,
  verifyReplicas,
} from './replicas';
import { RingOptimizer } from './ring-optimizer';

/** What {@link Ring.callbacks} adds to its usual work. */
export interface CallbackOptions {
  /** Raise the learning rate linearly from 1/worldSize of it to all of it over so many steps (Goyal et al., 2017). */
  readonly learningRateWarmUp?: { readonly steps: number };
  /**
   * Callbacks of your own (objects with some of the methods, or instances of tfjs's callback classes), called after the
   * ring's, so that they see averaged metrics and equal weights.
   */
  readonly also?: readonly tf.CustomCallbackArgs[];
  /** Saved as its options say; and if it was resumed, training goes on from there. */
  readonly checkpoint?: Checkpoint;
}

/**
 * What has to happen around `model.fit`, on every rank alike: before: names, shapes and order of the weights are
 * compared, and rank 0's weights broadcast; each epoch: the optimizer learns the epoch; at its end the moving
 * statistics of batch norm and the metrics are averaged, and the hashes of all weights compared.
 */
export class RingCallback extends tf.Callback {
  private fullLearningRate = 0;
  private step = 0;
  private epoch = 0;
  private batch = 0;
  private resumed: FitPosition | undefined;

  constructor(
    private readonly communicator: Communicator,
    private readonly options: CallbackOptions,
  ) {
    super();
    const steps = options.learningRateWarmUp?.steps;
    if (steps !== undefined && (!Number.isInteger(steps) || steps < 1)) {
      throw invalidArgument(`learningRateWarmUp.steps is ${steps}; it must be a whole number from 1 on.`);
    }
  }

  override async onTrainBegin(): Promise<void> {
    const weights = this.weights();
    const joined = this.live.takeJoinedPosition();
    this.resumed = joined ?? this.options.checkpoint?.takeResumedPosition();
    if (joined === undefined) await checkSameVariables(this.communicator, weights); // the others are past that
    // Within an epoch each rank has moving statistics of its own, and a checkpoint has brought them back.
    if (this.resumed === undefined) await broadcastVariables(this.communicator, weights, 0);
    this.step = this.resumed?.warmUp?.step ?? 0;
    this.fullLearningRate = this.resumed?.warmUp?.fullLearningRate ?? this.optimizer?.learningRate ?? 0;
    if (this.resumed !== undefined && this.resumed.warmUp === undefined) this.step = Infinity;
  }

  override async onEpochBegin(epoch: number): Promise<void> {
    // An epoch that was resumed half done is not a new one for the optimizer.
    if (this.resumed === undefined || this.resumed.batch === 0) this.optimizer?.beginEpoch(epoch);
    this.batch = this.resumed?.batch ?? 0;
    this.resumed = undefined;
    this.epoch = epoch;
  }

  override async onBatchBegin(): Promise<void> {
    if (this.batch > 0) await this.save({ epoch: this.epoch, batch: this.batch });
    const steps = this.options.learningRateWarmUp?.steps;
    if (steps === undefined || this.step > steps || this.optimizer === undefined) return;
    const start = 1 / this.communicator.launched.worldSize;
    this.optimizer.learningRate = this.fullLearningRate * (start + (1 - start) * Math.min(1, this.step / steps));
    this.step++;
  }

  override async onBatchEnd(): Promise<void> {
    this.batch++;
  }

  /** To be called after all callbacks have seen the epoch's end. */
  async commitAfter(epoch: number): Promise<void> {
    await this.save({ epoch: epoch + 1, batch: 0 });
    const { optimizer } = this;
    if (optimizer === undefined) return;
    await this.live.commit({ variables: this.weights(), optimizer }, this.position({ epoch: epoch + 1, batch: 0 }));
  }

  private async save(position: FitPosition): Promise<void> {
    await this.options.checkpoint?.saveIfDue(this.position(position));
  }

  private position({ epoch, batch }: FitPosition): FitPosition {
    const steps = this.options.learningRateWarmUp?.steps ?? -1;
    const { step, fullLearningRate } = this;
    const warmUp = step > steps ? undefined : { step, fullLearningRate };
    return { epoch, batch, warmUp };
  }

  override async onTrainEnd(): Promise<void> {
    // A training that ended within the warm-up must not leave its reduced rate to the next one.
    const steps = this.options.learningRateWarmUp?.steps;
    if (steps === undefined || this.step > steps || this.optimizer === undefined) return;
    this.optimizer.learningRate = this.fullLearningRate;
  }

  override async onEpochEnd(epoch: number, logs?: Record<string, number | tf.Scalar>): Promise<void> {
    await averageVariables(this.communicator, this.statistics());
    await verifyReplicas(this.communicator, this.weights(), `after epoch ${epoch}`);
    if (logs !== undefined) await this.averageMetrics(logs);
  }

  private async averageMetrics(logs: Record<string, number | tf.Scalar>): Promise<void> {
    const names = Object.keys(logs).sort();
    const values = new Float64Array(names.length);
    for (const [i, name] of names.entries()) {
      const value = logs[name]!;
      values[i] = typeof value === 'number' ? value : (await value.data())[0]!;
      tf.dispose(value); // its place in the logs is taken by the mean
    }
    const run = async () => Array.from(await this.communicator.allReduce(values.slice(), { op: 'mean' }), String);
    const means = await this.communicator.units.run({ name: 'average metrics', run });
    names.forEach((name, i) => {
      logs[name] = Number(means[i]); // by way of texts, as JSON knows no NaN
    });
  }

  private get live(): LiveTraining {
    return LiveTraining.of(this.communicator);
  }

  private get optimizer(): RingOptimizer | undefined {
    const { optimizer } = this.layersModel;
    return RingOptimizer.is(optimizer) ? optimizer : undefined;
  }

  private get layersModel(): tf.LayersModel {
    return this.model as unknown as tf.LayersModel;
  }

  private weights(): Variables {
    return variablesOf(this.layersModel);
  }

  /** The weights that no gradient trains: batch norm's moving mean and variance. */
  private statistics(): tf.Variable[] {
    const trained = new Set(this.layersModel.trainableWeights);
    return this.layersModel.weights.filter(weight => !trained.has(weight)).map(weight => weight.read() as tf.Variable);
  }
}

/** For `model.fit`: the ring's own, the user's, and what must come after those. */
export function callbacksOf(communicator: Communicator, options: CallbackOptions): tf.Callback[] {
  const first = new RingCallback(communicator, options);
  const last = { onEpochEnd: (epoch: number) => first.commitAfter(epoch) };
  const hasLast = options.checkpoint !== undefined || communicator.isElastic;
  const others = [...(options.also ?? []), ...(hasLast ? [last] : [])];
  return [first, ...others.map(asCallback)] as tf.Callback[];
}

/** Makes callbacks of any kind ones that `model.fit` takes together. */
function asCallback(callback: object): tf.Callback | tf.CustomCallback {
  const isReady = typeof (callback as { setParams?: unknown }).setParams === 'function';
  return isReady ? (callback as tf.Callback) : new tf.CustomCallback(callback as tf.CustomCallbackArgs, 'auto');
}
