import { type Communicator, Purpose } from '../communicator/communicator';
import { invalidArgument } from '../errors';
import { requirePlain } from '../plain-json';
import type { FitPosition } from './fit-position';
import { broadcastVariables } from './variables';
import { checkSameVariables } from '../core/replicas';
import type { Training } from './trained';
import { captureWelcome, passWelcome, takeWelcome, type Welcome } from './welcome';

/** Where in the training {@link Ring.join} has joined. */
export interface JoinedPosition {
  /** How many optimizer steps are done. */
  readonly step: number;
  /** The epoch to continue with: `initialEpoch` of `model.fit`, or the last epoch given to `setEpoch`. */
  readonly epoch: number;
  /** What the others gave to {@link Ring.commit}; undefined if this rank was there from the beginning. */
  readonly state: unknown;
}

/** The training of a communicator's ranks, for processes that join while it is running. */
export class LiveTraining {
  private static readonly all = new WeakMap<Communicator, LiveTraining>();
  private trained: Training | undefined;
  /** Where `model.fit` will continue, until it does. */
  private joinedAt: FitPosition | undefined;

  private constructor(private readonly communicator: Communicator) {}

  static of(communicator: Communicator): LiveTraining {
    const known = this.all.get(communicator) ?? new LiveTraining(communicator);
    this.all.set(communicator, known);
    return known;
  }

  /** Sets what is trained from now on. */
  begin(trained: Training): void {
    this.trained = trained;
  }

  async join(trained: Training): Promise<JoinedPosition> {
    const { communicator } = this;
    this.begin(trained);
    if (!communicator.isNewcomer) {
      await checkSameVariables(communicator, trained.variables, Purpose.Join);
      await broadcastVariables(communicator, trained.variables, { root: 0, purpose: Purpose.Join });
      return { step: trained.steps.step, epoch: 0, state: undefined };
    }
    const welcome = await communicator.enter(root => passWelcome(communicator, root, undefined, trained));
    await takeWelcome(welcome, trained);
    const { position, state, counters } = welcome.header;
    this.joinedAt = position;
    return { step: counters.steps, epoch: position.epoch, state };
  }

  /** Takes the place where `model.fit` continues on a rank that has joined. Undefined if it was taken already. */
  takeJoinedPosition(): FitPosition | undefined {
    const position = this.joinedAt;
    this.joinedAt = undefined;
    return position;
  }

  /** {@link commit} in a custom loop. */
  async commitLoop(state: unknown): Promise<void> {
    requirePlain(state, 'ring.commit cannot pass on', 'state');
    if (!this.communicator.isElastic) return;
    const { trained } = this;
    if (trained === undefined)
      throw invalidArgument('ring.commit needs ring.join(…) or checkpoint.resume() before it.');
    await this.commit(trained, { epoch: trained.steps.epoch ?? 0, batch: 0 }, state);
  }

  /** Lets in the processes that wait. All ranks are at this point, or will be. */
  async commit(trained: Training, position: FitPosition, state?: unknown): Promise<void> {
    const { communicator } = this;
    if (!communicator.isElastic) return;
    trained.steps.notices.take(); // newcomers have heard none
    let own: Welcome | undefined;
    await communicator.units.admit({
      countWaiting: async () => {
        const waiting = communicator.rank === 0 ? await communicator.waitingNewcomers() : 0;
        const [first] = await communicator.allGather(Float64Array.of(waiting), { purpose: Purpose.Commit });
        return first![0]!;
      },
      welcome: async root => {
        own ??= await captureWelcome(trained, position, state);
        passWelcome(communicator, root, own, trained);
      },
    });
  }
}
