import { AsyncLocalStorage } from 'node:async_hooks';
import { type GradringError, invalidArgument, isLoss } from '../errors';
import { type ElasticJoin, STAY } from '../rendezvous/rendezvous-options';
import { brokenValue, decodeValues, encodeValue } from '../rank-values';
import type { Check } from '../shape';
import { asleep, awake, type Ticket, waitForPromise, type Work } from '../work';
import { isUnitReport, mostAdvanced, ranksBehind, type UnitReport } from './unit-report';

/** What must happen on all ranks or on none. */
export interface Unit<T> {
  /** For errors. The same on all ranks. */
  readonly name: string;
  /**
   * The collectives. The result is JSON, and the same on all ranks as far as it matters. `run` may be called again, in
   * a ring of another size, so it must not change anything that stays. The caller does that with the result.
   */
  readonly run: () => Work<T>;
  /** Whether another rank's result can be one. Undefined: whatever it is. */
  readonly isResult?: Check<T>;
  /**
   * Gives what JSON cannot hold to the ranks where the unit failed, by synchronous collectives in the same order on all
   * ranks.
   *
   * @param root A rank that has done the unit.
   * @param isBehind Whether this rank has not.
   */
  share?(root: number, isBehind: boolean, result: T): void;
}

/** How newcomers are let in. */
export interface Admission {
  /** How many wait. A collective, with the same result on all ranks. */
  readonly countWaiting: () => Promise<number>;
  /** Gives newcomers the state of the training, by collectives of all ranks. `root` is a rank that has it. */
  readonly welcome: (root: number) => Promise<void>;
}

/** What units need of a communicator. */
export interface UnitRing {
  /** Sleeps until the next ring has formed. Returns whether it is another one than before. */
  rejoin(join: ElasticJoin): boolean;
  allGather(own: Uint8Array): Uint8Array[];
  /** Settles when all others have done the last collective that this rank has done. */
  awaitOthers(): Promise<void>;
  /** Allows collectives within `run`, even if this rank is leaving. */
  evenIfLeaving<T>(run: () => T): T;
}

/** The part of a unit that the ranks compare. */
type ComparedUnit = Pick<Unit<unknown>, 'name' | 'share'> & { readonly isResult?: (value: unknown) => boolean };

interface DoneUnit {
  readonly unit: ComparedUnit;
  readonly result: unknown;
}

const NOTHING: DoneUnit = { unit: { name: 'nothing' }, result: null };

/**
 * Keeps the ranks of an elastic run together. What must happen on all ranks or on none is a unit: an optimizer step, a
 * checkpoint, a broadcast of weights. Each rank counts the units that it has done. If a rank is lost, the others form a
 * new ring, and compare their counts in it. Counts differ by one at most: the last collective of a unit needs all
 * ranks, so no rank is done with it before all have begun it.
 *
 * An example: ranks 0, 1 and 2 have done 7 units, and are within 'step 7'. Rank 2 is killed at a moment when rank 0
 * has received the last frame of the step and rank 1 has not. So rank 0 has done 8 units, and fails in 'step 8'; rank 1
 * fails in 'step 7'. In the ring of two,
 *
 * 1. rank 0 reports `{ done: 8, lastName: 'step 7', lastResult, failedName: 'step 8' }`, rank 1 `{ done: 7, failedName:
 *    'step 7' }`: rank 1 is behind;
 * 2. both call `share` of 'step 7', and so rank 0 gives what is too large for a report;
 * 3. rank 1 takes `lastResult` as the result of 'step 7', and has done 8 units, too;
 * 4. both run 'step 8'.
 *
 * If both had failed in 'step 7', neither would be behind, and both would run it again.
 *
 * A newcomer replaces a lost rank. It waits in {@link enter} until the others let it in, in {@link admit}.
 */
export class Units {
  private doneCount = 0;
  private last = NOTHING;
  /** Whether the ranks have compared since this process began. */
  private hasCompared = false;
  private isLeaving = false;
  /** Set within a unit. */
  private readonly inside = new AsyncLocalStorage<true>();
  /** Settles when the last unit that was requested is over. */
  private tail: Promise<unknown> = Promise.resolve();
  private pending = 0;
  /** The two units of {@link admit}: at the end of the first all ranks are ready, the second lets newcomers in. */
  private commit: ComparedUnit | undefined;
  private welcome: ComparedUnit | undefined;
  /** The ranks of the newcomers in this ring that have no state yet. */
  private newcomers: readonly number[] = [];
  /** Whether some rank has left a ring to let newcomers in, since {@link admit} was called. */
  private hasAdmitted = false;

  /** @param ring Undefined if the run is not elastic: then units are just run. */
  constructor(private readonly ring: UnitRing | undefined) {}

  /** Runs a unit, after the earlier ones. Within another unit it is part of that unit. */
  async run<T>(unit: Unit<T>): Promise<T> {
    if (this.ring === undefined || this.inside.getStore()) return awake(unit.run());
    const previous = this.tail;
    this.pending++;
    const result = (async () => {
      try {
        await previous.catch(() => undefined);
        return await this.inside.run(true, () => awake(this.complete(unit)));
      } finally {
        this.pending--;
      }
    })();
    this.tail = result.catch(() => undefined);
    return result;
  }

  /** A unit for {@link Work}. It begins when somebody waits for it, and is run once. */
  ticket<T>(unit: Unit<T>): Ticket<T> {
    const run = () => this.run(unit);
    let promise: Promise<T> | undefined;
    return {
      get promise() {
        return (promise ??= run());
      },
      sleep: () => this.runSync(unit),
    };
  }

  /** {@link run}; the thread sleeps meanwhile. */
  runSync<T>(unit: Unit<T>): T {
    if (this.ring === undefined || this.inside.getStore()) return asleep(unit.run());
    if (this.pending > 0) throw invalidArgument('Await the earlier calls first: they must be over on all ranks.');
    return asleep(this.complete(unit));
  }

  /** @throws GradringError `ERR_INVALID_ARGUMENT` within a unit, which may run again. `what` must not. */
  checkOutside(what: string): void {
    if (this.ring === undefined || !this.inside.getStore()) return;
    throw invalidArgument(
      `${what} cannot be part of allOrNone: it already is all or none by itself, and might be done twice.`,
    );
  }

  /** Lets in the newcomers that wait, if there are any. Called on all ranks, between the same two units. */
  async admit({ countWaiting, welcome }: Admission): Promise<void> {
    this.checkOutside('A commit');
    this.newcomers = [];
    this.hasAdmitted = false;
    const commit = { name: 'commit', run: () => waitForPromise(countWaiting()) };
    const admission: Unit<null> = {
      name: 'welcome',
      run: () => waitForPromise(letIn()),
    };
    const letIn = async () => {
      // If the ring has formed again after the commit, the newcomers may be here already, or lost again.
      if (!this.hasAdmitted && this.newcomers.length === 0) {
        this.ring!.rejoin({ newcomer: false, admits: true });
        this.compare(admission);
      }
      if (this.newcomers.length === 0) return null;
      let root = 0;
      while (this.newcomers.includes(root)) root++;
      await welcome(root);
      return null;
    };
    [this.commit, this.welcome] = [commit, admission];
    if ((await this.run(commit)) > 0) await this.run(admission);
  }

  /**
   * Waits until the others let this rank in. It is a newcomer.
   *
   * @param receive Receives what the others' {@link Admission.welcome} gives, by synchronous collectives.
   */
  async enter<T>(rejoin: () => Promise<void>, receive: (root: number) => T): Promise<T> {
    for (;;) {
      await rejoin();
      try {
        const reports = this.exchangeReports(undefined, true);
        const source = reports[mostAdvanced(reports)];
        if (!source?.isAfterCommit) continue; // the rank that had let it in is lost
        // All others have caught up by now, so the lowest of them is as good as any.
        const received = receive(reports.findIndex(({ isNewcomer }) => !isNewcomer));
        this.doneCount = source.done;
        this.finish({ name: 'welcome' }, null);
        return received;
      } catch (error) {
        if (!isLoss(error)) throw error;
      }
    }
  }

  /**
   * Called before this rank leaves. Waits until all others have done what it has done. Their comm threads report that,
   * even if their main threads are busy. If a rank is lost meanwhile, this rank sleeps until the others compare, and
   * gives its result to those that are behind.
   *
   * @throws GradringError if there is no ring any more, or if the others take longer than a collective's timeout.
   */
  async awaitOthers(): Promise<void> {
    if (this.ring === undefined) return;
    if (!this.inside.getStore()) await this.tail; // within a unit, it would wait for itself
    this.isLeaving = true;
    for (;;) {
      try {
        return await this.ring.awaitOthers();
      } catch (error) {
        this.recover(undefined, error);
      }
    }
  }

  private *complete<T>(unit: Unit<T>): Work<T> {
    for (;;) {
      try {
        // Before the first unit, other ranks may have been in an earlier ring, which this process does not know, and
        // then compare in this one. Their reports must not be taken for a collective of the unit.
        const taken = this.hasCompared ? undefined : this.compare(unit);
        return taken === undefined ? this.finish(unit, yield* unit.run()) : (taken.result as T);
      } catch (error) {
        const taken = this.recover(unit, error);
        if (taken !== undefined) return taken.result as T;
      }
    }
  }

  private finish<T>(unit: ComparedUnit, result: T): T {
    this.doneCount++;
    this.last = { unit, result };
    return result;
  }

  /**
   * Joins the next ring after the loss of a rank, and compares there; again if a rank is lost meanwhile. Returns what
   * {@link compare} returns. Throws the error if it is no loss, or if there is no other ring.
   */
  private recover(failed: ComparedUnit | undefined, error: unknown): DoneUnit | undefined {
    for (let lost = error; ;) {
      if (!isLoss(lost) || !this.ring!.rejoin(STAY)) throw lost;
      try {
        return this.ring!.evenIfLeaving(() => this.compare(failed));
      } catch (next) {
        // A rank that only helps the others before it leaves must not get them killed because they are slow.
        if (this.isLeaving && (next as GradringError).code === 'ERR_TIMEOUT') throw next;
        lost = next;
      }
    }
  }

  /**
   * Compares with the others in a new ring, and gives what this rank has done to those that are behind. If this rank is
   * behind in the unit that failed, takes the others' result, and returns it. Undefined means: run the unit again.
   */
  private compare(failed: ComparedUnit | undefined): DoneUnit | undefined {
    const reports = this.exchangeReports(failed, false);
    const source = mostAdvanced(reports);
    const { done, lastResult } = reports[source]!;
    const behind = ranksBehind(reports, reports[source]!);
    const isBehind = this.doneCount < done;
    if (isBehind && this.isLeaving) return undefined;
    if (behind.length > 0) {
      const unit = isBehind ? failed! : this.last.unit;
      if (unit.isResult?.(lastResult) === false) throw brokenValue(source);
      unit.share?.(source, isBehind, lastResult);
      if (isBehind) this.finish(unit, lastResult);
    }
    this.newcomers = reports.flatMap(({ isNewcomer }, rank) => (isNewcomer ? [rank] : []));
    this.hasAdmitted ||= reports.some(({ isAdmitting }) => isAdmitting);
    return isBehind ? this.last : undefined;
  }

  private exchangeReports(failed: ComparedUnit | undefined, isNewcomer: boolean): UnitReport[] {
    const report: UnitReport = {
      isNewcomer,
      isLeaving: this.isLeaving,
      done: this.doneCount,
      lastName: this.last.unit.name,
      lastResult: this.last.result,
      isAfterCommit: this.last.unit === this.commit,
      failedName: failed?.name,
      isAdmitting: failed !== undefined && failed === this.welcome,
    };
    const bytes = this.ring!.allGather(encodeValue(report));
    this.hasCompared = true;
    return decodeValues(bytes, isUnitReport);
  }
}
