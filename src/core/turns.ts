import type { Communicator } from '../communicator/communicator';

/** The calls of a communicator that have several collectives. They run one after the other. */
export class Turns {
  private static readonly all = new WeakMap<Communicator, Turns>();
  /** Settles, without an error, when the call is over that {@link inTurn} runs. */
  private running: Promise<unknown> | undefined;

  static of(communicator: Communicator): Turns {
    const known = this.all.get(communicator) ?? new Turns();
    this.all.set(communicator, known);
    return known;
  }

  /**
   * Runs what has several collectives when the earlier calls are over: between them ranks wait for their disks, so that
   * the collectives of two would come in different orders.
   */
  async inTurn<T>(run: () => Promise<T>): Promise<T> {
    while (this.running !== undefined) await this.running;
    const result = run();
    const end = () => (this.running = undefined);
    this.running = result.then(end, end);
    return result;
  }
}
