import { awake } from '../work';
import { tf } from './tfjs';
import { checkOptions, requireOneOf } from '../check-options';
import { type Communicator, Purpose } from '../communicator/communicator';
import { GradringError, invalidArgument } from '../errors';
import { shownName } from '../printable';
import { isBoolean, isNumber, isOptional, isOrNull, isRecordOf, isText, isWith } from '../shape';
import type { Checkpoint } from './checkpoint';
import { type EpochPlace, setEpochPlace } from './row-dataset';
import type { FitPosition } from './fit-position';
import { DataCheck, type GivenData, isGivenData } from './data-check';
import { earlyStopsIn, restoreEarlyStops } from './early-stops';
import type { FitParameters } from './fit-progress';
import { LiveTraining } from './live-training';
import { isOwnModel, otherCopy } from './one-copy';
import { areTexts, checkDescriptions, describe, gatherValues } from '../core/replicas';
import { averageVariables, broadcastVariables, type Variables, variablesOf, verifyReplicas } from './variables';
import { evaluateTogether } from './compute-together';
import { hasSyncBatchNormalization } from './sync-batch-norm';
import { type OptimizerSteps, stepsOf } from './optimizer-steps';
import type { FitLength } from '../core/compression-choice';
import type { WholeData } from './whole-data';

/** What {@link Ring.callbacks} does in addition to its usual work. */
export interface CallbackOptions {
  /**
   * Raises the learning rate linearly, from 1/worldSize of it to all of it, over so many steps (Goyal et al., 2017).
   * `true`: over the warm-up of DGC, as in its paper (section 3.3). It does nothing if there is no warm-up, as with the
   * default below 10,000 exchanges, and is an error with another compression that was given.
   */
  readonly learningRateWarmUp?: true | { readonly steps: number };
  /**
   * Callbacks of your own: objects with some of the methods, or instances of tfjs's callback classes. They are called
   * after the ring's, so they see averaged metrics and equal weights.
   */
  readonly also?: readonly tf.CustomCallbackArgs[];
  /** `model.fit` saves it as its options say. If it was resumed, the training continues from there. */
  readonly checkpoint?: Checkpoint;
  /**
   * What happens when the ranks have different numbers of batches. `error`: the others are told that a rank has no
   * more. `join`: the rank goes on with empty steps, and an update is the mean over the ranks that have a batch; so
   * before each step the ranks tell each other. An elastic run refuses it. Default `error`.
   */
  readonly uneven?: 'error' | 'join';
}

type Logs = Readonly<Record<string, number | tf.Scalar>>;

/** What a rank sends to the others when its `model.fit` begins. */
interface Beginning extends FitLength {
  readonly joinsUneven: boolean;
  readonly hasValidation: boolean;
  readonly variables: readonly string[];
  readonly isWrapped: boolean;
  readonly initialEpoch: number;
  /** Hashes of the data that was given to `ring.shard`. */
  readonly data: readonly string[];
  readonly given: GivenData | null;
}

/** What it sends when one of its epochs ends. Metrics are texts, because JSON has no NaN. */
interface EpochEnd {
  readonly metrics: Readonly<Record<string, string>>;
  readonly data: readonly string[];
  readonly given: GivenData | null;
}

const isBeginning = isWith<Beginning>({
  variables: areTexts,
  isWrapped: isBoolean,
  initialEpoch: isNumber,
  epochs: isNumber,
  stepsPerEpoch: isOrNull(isNumber),
  hasValidation: isBoolean,
  joinsUneven: isBoolean,
  data: areTexts,
  given: isOrNull(isGivenData),
});
/** The metric by which the best epoch is kept, as a text, or which metrics there are. */
const isFound = isWith<{ readonly value?: string; readonly names?: readonly string[] }>({
  value: isOptional(isText),
  names: isOptional(areTexts),
});
const isEpochEnd = isWith<EpochEnd>({ metrics: isRecordOf(isText), data: areTexts, given: isOrNull(isGivenData) });

/**
 * What has to happen around `model.fit`, the same on all ranks. Before: names, shapes and order of the weights are
 * compared, and rank 0's weights are broadcast. In each epoch: the optimizer gets the epoch; at its end the metrics and
 * the moving statistics of batch norm are averaged, and the hashes of all weights are compared.
 */
export class RingCallback extends tf.Callback {
  private fullLearningRate = 0;
  /** Over how many steps the learning rate rises. −1: it does not. */
  private risingSteps = -1;
  private step = 0;
  private epoch = 0;
  private batch = 0;
  private place: EpochPlace | undefined;
  private resumed: FitPosition | undefined;
  /** Whether the first epoch has begun. */
  private hasBegun = false;
  private length: FitLength = { epochs: 0, stepsPerEpoch: null };

  /** The other callbacks of the training. */
  others: readonly unknown[] = [];

  /** What the ranks validate on after each epoch, in place of tfjs. */
  private validation: WholeData | undefined;

  constructor(
    readonly communicator: Communicator,
    private readonly options: CallbackOptions,
  ) {
    super();
    checkCallbackOptions(options, communicator.isElastic);
    // A model of another copy of TensorFlow.js calls this method without its object. It must notice that, and say so.
    this.onTrainBegin = this.onTrainBegin.bind(this);
  }

  /** For one `model.fit`. Undefined if there is nothing to validate on, or if tfjs does it. */
  validateOn(validation: WholeData | undefined): void {
    this.validation = validation;
  }

  /** Whether ranks without a batch take empty steps. */
  get joinsUneven(): boolean {
    return this.options.uneven === 'join';
  }

  /** How many ranks have a batch for the next step. Its update is the mean over these. */
  async countBatches(hasBatch: boolean): Promise<number> {
    const all = await awake(gatherValues(this.communicator, Purpose.CountBatches, isBoolean, hasBatch));
    const count = all.filter(Boolean).length;
    if (count > 0) this.steps.gradientFactor = all.length / count;
    return count;
  }

  /** A step of a rank that has no batch. */
  async stepWithoutBatch(): Promise<void> {
    await this.onBatchBegin();
    // As tfjs calls the optimizer, which compares the names before the first step.
    const { collectedTrainableWeights } = this.layersModel as unknown as {
      readonly collectedTrainableWeights: tf.LayerVariable[];
    };
    const names = collectedTrainableWeights.map(weight => (weight.read() as tf.Variable).name);
    await this.steps.takeAwake(Object.fromEntries(names.map(name => [name, null])));
    await this.onBatchEnd();
  }

  override setModel(model: Parameters<tf.Callback['setModel']>[0]): void {
    if (!isOwnModel(model)) throw invalidArgument(otherCopy('model'));
    super.setModel(model);
  }

  override async onTrainBegin(): Promise<void> {
    const { communicator } = this;
    if (this.model == null) throw invalidArgument(otherCopy('model'));
    const weights = this.weights();
    if (this.joinsUneven && stepsOf(this.layersModel.optimizer)?.policy.changesWeights === true) {
      throw invalidArgument("uneven: 'join' is for gradients that are exchanged in every step: leave out localSteps.");
    }
    if (this.joinsUneven && hasSyncBatchNormalization(this.layersModel)) {
      throw invalidArgument(
        "uneven: 'join' does not work with ring.batchNormalization: a rank without a batch does not run its layers. Use tf.layers.batchNormalization.",
      );
    }
    const joined = this.live.takeJoinedPosition();
    this.options.checkpoint?.training.beginLoop();
    this.resumed = joined ?? this.options.checkpoint?.takeResumedPosition();
    this.hasBegun = false;
    const { checkpoint } = this.options;
    if (checkpoint !== undefined && this.resumed !== undefined) checkpoint.bestSoFar = this.resumed.best;
    const own = this.beginning(weights);
    this.length = joined?.stepsPerEpoch === undefined ? own : { ...own, stepsPerEpoch: joined.stepsPerEpoch };
    // If this rank has joined the others, they have done this already.
    if (joined === undefined) {
      const all = await awake(gatherValues(communicator, Purpose.BeginTraining, isBeginning, own));
      checkBeginnings(all);
      const steps = all.map(({ stepsPerEpoch }) => stepsPerEpoch ?? NaN);
      const longest = Math.max(...steps);
      this.length = { ...own, stepsPerEpoch: Number.isNaN(longest) ? null : longest };
      DataCheck.of(communicator).compare(all.map(({ data }) => data));
      DataCheck.of(communicator).compareGiven(all.map(({ given }) => given));
    }
    // Within an epoch each rank has its own moving statistics, which a checkpoint has restored.
    if (this.resumed === undefined) {
      await this.steps.synchronize();
      await broadcastVariables(communicator, weights, { root: 0, purpose: Purpose.BeginTraining });
    }
    this.step = this.resumed?.warmUp?.step ?? 0;
    this.fullLearningRate = this.resumed?.warmUp?.fullLearningRate ?? this.steps.inner.learningRate;
    if (this.resumed !== undefined && this.resumed.warmUp === undefined) this.step = Infinity;
    this.risingSteps = this.resumed?.warmUp === undefined ? -1 : Infinity; // until the first epoch begins
  }

  override async onEpochBegin(epoch: number): Promise<void> {
    // A training that was interrupted keeps the length by which it had chosen the sparsity.
    const goesOn = this.resumed?.isOver === false && this.steps.choice.expected !== undefined;
    if (!this.hasBegun) {
      const { choice, step } = this.steps;
      choice.trains = this.model.name;
      if (goesOn) choice.goOn(this.length);
      else choice.beginFit(epoch, this.length, step);
      this.risingSteps = this.step === Infinity ? -1 : this.stepsOfRise();
    }
    if (!this.hasBegun) restoreEarlyStops(this.others, this.resumed?.earlyStops ?? []);
    this.hasBegun = true;
    // An epoch that was resumed in its middle is not a new one for the optimizer.
    if (this.resumed === undefined || this.resumed.batch === 0) this.steps.beginEpoch(epoch);
    const { batch: firstBatch = 0, row: firstRow } = this.resumed ?? {};
    this.batch = firstBatch;
    // A second `model.fit`, which counts from 0 again, does not repeat the orders of the first.
    this.place = {
      epoch: this.steps.epoch ?? epoch,
      firstBatch,
      firstRow,
      batches: 0,
      row: undefined,
      batchSize: 0,
    };
    setEpochPlace(this.communicator, this.place);
    this.resumed = undefined;
    this.epoch = epoch;
  }

  override async onBatchBegin(): Promise<void> {
    if (this.batch > 0) await this.save({ epoch: this.epoch, batch: this.batch, row: this.place?.row });
    if (this.hasRisen) return;
    const start = 1 / this.communicator.launched.worldSize;
    const done = Math.min(1, this.risenSteps / this.risingSteps);
    this.steps.inner.learningRate = this.fullLearningRate * (start + (1 - start) * done);
    this.step++;
  }

  override async onBatchEnd(): Promise<void> {
    this.batch++;
    const { place } = this;
    if (place === undefined) return;
    place.batches++;
    if (place.row !== undefined) place.row += place.batchSize * this.steps.ranksInStep;
  }

  /** Callbacks that must come after all others have seen the end of an epoch. */
  get last(): tf.CustomCallback[] {
    if (this.options.checkpoint === undefined && !this.communicator.isElastic) return [];
    return [new tf.CustomCallback({ onEpochEnd: (epoch, logs) => this.commitAfter(epoch, logs) }, 'auto')];
  }

  private async commitAfter(epoch: number, logs: Logs = {}): Promise<void> {
    if (epoch + 1 >= this.length.epochs) await this.steps.synchronize(); // before the last checkpoint
    await this.save({ epoch: epoch + 1, batch: 0 }, await this.noteBest(logs));
    const { steps } = this;
    await this.live.commit({ variables: this.weights(), steps }, this.position({ epoch: epoch + 1, batch: 0 }));
    steps.ranksInStep = this.communicator.worldSize; // newcomers begin with it, too
  }

  private async save(position: FitPosition, isBest = false): Promise<void> {
    await this.options.checkpoint?.afterBatch(this.position(position), isBest);
  }

  /** Whether an epoch with these metrics is the best so far: those of rank 0, as callbacks may have added some. */
  private async noteBest(logs: Logs): Promise<boolean> {
    const { checkpoint } = this.options;
    const wanted = checkpoint?.bestMetric;
    if (checkpoint === undefined || wanted === undefined) return false;
    const { metric, mode } = wanted;
    const own = metric in logs ? { value: String(logs[metric]) } : { names: Object.keys(logs).map(shownName) };
    const [first] = await awake(gatherValues(this.communicator, Purpose.EndEpoch, isFound, own));
    if (first!.value === undefined) {
      const has = (first!.names ?? []).map(name => `'${name}'`).join(', ');
      throw invalidArgument(`best is '${shownName(metric)}', but the metrics of an epoch are ${has}.`);
    }
    const value = Number(first!.value);
    const { bestSoFar = mode === 'min' ? Infinity : -Infinity } = checkpoint;
    if (!(mode === 'min' ? value < bestSoFar : value > bestSoFar)) return false;
    checkpoint.bestSoFar = value;
    return true;
  }

  private position({ epoch, batch, row }: FitPosition): FitPosition {
    const { step, fullLearningRate } = this;
    const warmUp = this.hasRisen ? undefined : { step, fullLearningRate };
    const { epochs, stepsPerEpoch } = this.length;
    const isOver = batch === 0 && epoch >= epochs;
    const [{ checkpoint }, earlyStops] = [this.options, earlyStopsIn(this.others)];
    return { epoch, batch, row, stepsPerEpoch, isOver, warmUp, best: checkpoint?.bestSoFar, earlyStops };
  }

  /** `model.fit` is over, also if it has failed. */
  end(hasFailed: boolean): void {
    setEpochPlace(this.communicator, undefined);
    this.options.checkpoint?.training.endLoop(hasFailed);
    const steps = stepsOf((this.model as unknown as tf.LayersModel | null)?.optimizer);
    if (steps !== undefined) steps.gradientFactor = 1;
  }

  override async onTrainEnd(): Promise<void> {
    await this.steps.synchronize();
    // If a training ends within the warm-up, the next one must not begin with the reduced rate.
    if (!this.hasRisen) this.steps.inner.learningRate = this.fullLearningRate;
    await this.options.checkpoint?.training.tryFinish();
  }

  override async onEpochEnd(epoch: number, logs: Record<string, number | tf.Scalar> = {}): Promise<void> {
    const { communicator } = this;
    this.steps.choice.endEpoch(this.length, this.steps.step);
    const data = DataCheck.of(communicator);
    const own: EpochEnd = { metrics: await metricsOf(logs), data: data.take(), given: data.takeGiven() };
    const all = await awake(gatherValues(communicator, Purpose.EndEpoch, isEpochEnd, own));
    data.compare(all.map(each => each.data));
    data.compareGiven(all.map(({ given }) => given));
    const metrics = all.map(each => each.metrics);
    // A rank that had no batch in this epoch has none.
    const measured = this.joinsUneven ? metrics.filter(each => Object.keys(each).length > 0) : metrics;
    checkSameMetrics(metrics, measured, epoch);
    for (const name of Object.keys(measured[0] ?? {})) {
      logs[name] = measured.reduce((sum, { [name]: value }) => sum + Number(value), 0) / measured.length;
    }
    const isMeasured = measured.includes(metrics[communicator.rank]!);
    const share = this.joinsUneven ? { isIn: isMeasured, ranks: measured.length } : undefined;
    await averageVariables(communicator, this.statistics(), Purpose.EndEpoch, share);
    if (!this.steps.replicasMayDiffer) {
      await verifyReplicas(communicator, this.weights(), { when: `after epoch ${epoch}`, purpose: Purpose.EndEpoch });
    }
    await this.validate(logs);
  }

  /** Adds what tfjs would call `val_loss` and so on. */
  private async validate(logs: Record<string, number | tf.Scalar>): Promise<void> {
    if (this.validation === undefined) return;
    const model = this.layersModel;
    const values = await evaluateTogether(this.communicator, model, this.validation, 'take all');
    const names = (model as unknown as { getDedupedMetricsNames(): string[] }).getDedupedMetricsNames();
    for (const [i, name] of names.entries()) logs[`val_${name}`] = values[i]!;
  }

  private get hasRisen(): boolean {
    return this.risenSteps > this.risingSteps;
  }

  /** The warm-up of dgc() counts all steps of the optimizer; one of so many steps begins with each `model.fit`. */
  private get risenSteps(): number {
    return this.options.learningRateWarmUp === true ? this.steps.step : this.step;
  }

  /** See {@link risingSteps}. */
  private stepsOfRise(): number {
    const { learningRateWarmUp } = this.options;
    if (learningRateWarmUp === undefined) return -1;
    if (learningRateWarmUp !== true) return learningRateWarmUp.steps;
    return this.steps.choice.warmUpSteps(this.steps.step) || -1;
  }

  private beginning(weights: Variables): Beginning {
    const { initialEpoch, epochs, samples, batchSize, steps, doValidation } = this.params as unknown as FitParameters;
    return {
      variables: weights.map(describe),
      isWrapped: stepsOf(this.layersModel.optimizer) !== undefined,
      initialEpoch: initialEpoch ?? 0,
      epochs,
      stepsPerEpoch: samples == null ? (steps ?? null) : Math.ceil(samples / batchSize),
      hasValidation: doValidation || this.validation !== undefined,
      joinsUneven: this.joinsUneven,
      data: DataCheck.of(this.communicator).take(),
      given: DataCheck.of(this.communicator).takeGiven(),
    };
  }

  private get live(): LiveTraining {
    return LiveTraining.of(this.communicator);
  }

  /** The optimizer is wrapped, else the training would not have begun. */
  private get steps(): OptimizerSteps {
    return stepsOf(this.layersModel.optimizer)!;
  }

  private get layersModel(): tf.LayersModel {
    return this.model as unknown as tf.LayersModel;
  }

  private weights(): Variables {
    return variablesOf(this.layersModel, 'ring.callbacks');
  }

  /** The weights that no gradient trains, such as batch norm's moving mean and variance. */
  private statistics(): tf.Variable[] {
    const trained = new Set(this.layersModel.trainableWeights);
    return this.layersModel.weights.filter(weight => !trained.has(weight)).map(weight => weight.read() as tf.Variable);
  }
}

const OPTIONS = { learningRateWarmUp: true, also: true, checkpoint: true, uneven: true } as const;

const BESIDE = 'Pass your own callbacks beside it, [...ring.callbacks(), yours], or as { also: [yours] }.';

function checkCallbackOptions(options: CallbackOptions, isElastic: boolean): void {
  if (Array.isArray(options)) throw invalidArgument(`ring.callbacks takes options, not an array. ${BESIDE}`);
  checkOptions('ring.callbacks', options, OPTIONS, name => (/^on[A-Z]/.test(name) ? BESIDE : undefined));
  const { learningRateWarmUp, also = [], uneven = 'error' } = options;
  requireOneOf('uneven', uneven, ['error', 'join']);
  if (uneven === 'join' && isElastic) {
    throw invalidArgument(
      "uneven: 'join' does not work in an elastic run, which may lose a rank after its batch was counted. ring.shard with { reshuffle } divides the rows evenly among the ranks that are left.",
    );
  }
  if (!Array.isArray(also)) throw invalidArgument('also is not an array: pass { also: [yours] } to ring.callbacks.');
  const wrong = also.findIndex(callback => typeof callback !== 'object' || callback === null);
  if (wrong !== -1) throw invalidArgument(`also holds ${String(also[wrong])}, which is not a callback.`);
  if (learningRateWarmUp === undefined || learningRateWarmUp === true) return;
  if (typeof learningRateWarmUp !== 'object' || learningRateWarmUp === null) {
    throw invalidArgument(`learningRateWarmUp is ${String(learningRateWarmUp)}; it must be true or { steps }.`);
  }
  checkOptions('learningRateWarmUp', learningRateWarmUp, { steps: true });
  const { steps } = learningRateWarmUp;
  if (Number.isInteger(steps) && steps >= 1) return;
  throw invalidArgument(`learningRateWarmUp.steps is ${steps}; it must be a whole number of at least 1.`);
}

/** @throws GradringError naming the first difference. */
function checkBeginnings(all: readonly Beginning[]): void {
  const unwrapped = all.findIndex(({ isWrapped }) => !isWrapped);
  if (unwrapped !== -1) {
    const words = `The model of rank ${unwrapped} is compiled with an optimizer that is not wrapped, so its gradients would not be exchanged. Pass ring.wrap(optimizer) to model.compile.`;
    throw new GradringError('ERR_INVALID_ARGUMENT', words, { rank: unwrapped });
  }
  checkDescriptions(all.map(({ variables }) => variables));
  const first = all[0]!;
  for (const [rank, { initialEpoch, epochs, stepsPerEpoch, hasValidation, joinsUneven }] of all.entries()) {
    const differ = (words: string) => new GradringError('ERR_COLLECTIVE_MISMATCH', words);
    const isUneven = stepsPerEpoch !== first.stepsPerEpoch && stepsPerEpoch !== null && first.stepsPerEpoch !== null;
    if (joinsUneven !== first.joinsUneven) {
      const [has, lacks] = joinsUneven ? [rank, 0] : [0, rank];
      throw differ(
        `Rank ${has} has ring.callbacks({ uneven: 'join' }), but rank ${lacks} has not. Pass it on all ranks.`,
      );
    }
    if (isUneven && !joinsUneven) {
      throw differ(
        `Rank 0 takes ${first.stepsPerEpoch} steps in an epoch, but rank ${rank} takes ${stepsPerEpoch}: they have different numbers of rows, or different batch sizes. ring.shard gives all ranks the same number of rows; ring.callbacks({ uneven: 'join' }) lets them differ.`,
      );
    }
    if (epochs !== first.epochs) {
      throw differ(
        `Rank 0 trains ${first.epochs} epochs, but rank ${rank} trains ${epochs}. Pass the same epochs on all ranks.`,
      );
    }
    if (initialEpoch !== first.initialEpoch) {
      throw differ(
        `Rank 0 begins with epoch ${first.initialEpoch}, but rank ${rank} with epoch ${initialEpoch}. Pass the same initialEpoch on all ranks.`,
      );
    }
    if (hasValidation !== first.hasValidation) {
      const [has, lacks] = hasValidation ? [rank, 0] : [0, rank];
      throw differ(`Rank ${has} has validation data, but rank ${lacks} has none. Pass it on all ranks, or on none.`);
    }
  }
}

/** The metrics of an epoch as texts. Disposes of tensors: the means will replace them. */
async function metricsOf(logs: Record<string, number | tf.Scalar>): Promise<Record<string, string>> {
  const metrics: Record<string, string> = {};
  for (const name of Object.keys(logs).sort()) {
    const value = logs[name]!;
    metrics[name] = String(typeof value === 'number' ? value : (await value.data())[0]!);
    tf.dispose(value);
  }
  return metrics;
}

/**
 * @param all Of each rank.
 * @param measured Those of them that should be alike.
 * @throws GradringError naming the first metric that one rank has and another does not.
 */
function checkSameMetrics(
  all: readonly EpochEnd['metrics'][],
  measured: readonly EpochEnd['metrics'][],
  epoch: number,
): void {
  const names = [...new Set(measured.flatMap(metrics => Object.keys(metrics)))];
  for (const name of names) {
    const rank = all.findIndex(metrics => measured.includes(metrics) && !(name in metrics));
    if (rank === -1) continue;
    const other = all.findIndex(metrics => name in metrics);
    const words = `After epoch ${epoch}, rank ${other} has the metric ${shownName(name)}, but rank ${rank} does not. Compile with the same metrics, and pass validation data on all ranks, or on none.`;
    throw new GradringError('ERR_COLLECTIVE_MISMATCH', words);
  }
}
