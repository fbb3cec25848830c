import type { Communicator } from '../communicator/communicator';
import { invalidArgument } from '../errors';
import { asleep, awake, waitFor, type Work } from '../work';
import type { ExchangedTensors, TrainedTensor } from './exchanged-tensors';
import type { ExchangeSteps, PendingExchange } from './exchange-steps';

/** Takes steps one after the other, in the order of the calls: asleep, or awake. */
export class StepRunner<V extends TrainedTensor, T extends ExchangedTensors<V>, G> {
  /** An asynchronous step or a save is under way. The memories of the exchange must not be written to. */
  private isBusy = false;

  /**
   * @param busyWords The message for a call that comes too early.
   * @param onApplied Called for each update that was applied.
   */
  constructor(
    private readonly communicator: Communicator,
    private readonly steps: ExchangeSteps<V, T, G>,
    private readonly busyWords: string,
    private readonly onApplied: () => void = () => undefined,
  ) {}

  /** @throws GradringError `ERR_INVALID_ARGUMENT` if a step or a save is under way. */
  checkIdle(): void {
    if (this.isBusy) throw invalidArgument(this.busyWords);
  }

  /** Runs what no step may be taken in. */
  async whileBusy<R>(run: () => Promise<R>): Promise<R> {
    this.checkIdle();
    this.isBusy = true;
    try {
      return await run();
    } finally {
      this.isBusy = false;
    }
  }

  /** Runs work that is a step, or a part of one. The thread sleeps meanwhile. */
  asleep<R>(work: () => Work<R>): R {
    this.checkIdle();
    return asleep(work());
  }

  /** Runs work that is a step, or a part of one. */
  awake<R>(work: () => Work<R>): Promise<R> {
    return this.whileBusy(() => awake(work()));
  }

  /**
   * A step.
   *
   * @param names Gives the names of the variables that are trained. Called before the first step.
   * @returns Whether an update was applied.
   */
  *take(gradients: G, names: () => readonly string[]): Work<boolean> {
    const { steps } = this;
    this.checkOutsideUnits();
    if (steps.trained === undefined) yield* steps.begin(names());
    yield* this.completeUnderWay();
    const taken = steps.take(gradients);
    let { isApplied } = taken;
    if (taken.load === undefined) steps.completeAlone();
    else if (!steps.beginExchange(taken.load)) {
      const isExchanged = yield* this.complete(steps.exchange(taken.load, true));
      isApplied ||= isExchanged;
    }
    if (isApplied) this.onApplied();
    return isApplied;
  }

  /** Applies the update of an exchange that is under way. */
  *completeUnderWay(): Work<void> {
    const exchange = this.steps.takeUnderWay();
    if (exchange !== undefined && (yield* this.complete(exchange))) this.onApplied();
  }

  /** Exchanges the steps that wait for it, if there are any. */
  *completeWaiting(): Work<void> {
    const { steps } = this;
    if (steps.policy.waitingSteps === 0) return;
    this.checkOutsideUnits();
    if (steps.trained === undefined) yield* steps.begin(steps.restored.map(({ name }) => name)); // resumed
    yield* this.complete(steps.endRound());
  }

  /** Called before the policy takes gradients: it would take them again if a unit of the user's is run again. */
  private checkOutsideUnits(): void {
    this.communicator.units.checkOutside('An optimizer step');
  }

  /** Returns whether an update was applied. */
  private *complete(exchange: PendingExchange): Work<boolean> {
    const { communicator, steps } = this;
    const result = yield* waitFor(communicator.units.ticket(exchange.unit));
    const isApplied = steps.complete(result, exchange);
    yield* steps.verifyAfter(result);
    return isApplied;
  }
}
