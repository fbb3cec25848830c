import { AsyncLocalStorage } from 'node:async_hooks';
import { GradringError, invalidArgument, isLoss } from '../errors';
import { type ElasticJoin, STAY } from '../rendezvous/rendezvous-options';

/** What must happen on all ranks or on none, and so is done again, or made good, when a rank is lost in its midst. */
export interface Unit<T> {
  /** For errors; the same on all ranks. */
  readonly name: string;
  /**
   * The collectives. Their result is JSON, and the same on all ranks as far as it matters. What is to stay is changed
   * only when they have returned. May be run again, in a ring of another size.
   */
  readonly run: () => T | Promise<T>;
  /**
   * Gives those for whom the unit failed what JSON cannot hold, by collectives in the same order on all ranks.
   *
   * @param root A rank that has done it.
   * @param isBehind Whether this rank has not.
   */
  readonly share?: (root: number, isBehind: boolean, result: T) => void;
}

/** A unit whose collectives put the thread to sleep. */
export interface SyncUnit<T> extends Unit<T> {
  readonly run: () => T;
}

/** What units need of a communicator. */
export interface UnitRing {
  /** Awaits the next ring, asleep. Returns whether there is another than before. */
  rejoin(join: ElasticJoin): boolean;
  allGather(own: Uint8Array): Uint8Array[];
  /** Settles when all others have done the last collective that this rank has done. */
  awaitOthers(): Promise<void>;
  /** Lets collectives through within `run`, though this rank may be leaving. */
  evenIfLeaving<T>(run: () => T): T;
}

/** What ranks tell each other in a new ring. */
interface Report {
  readonly isNewcomer: boolean;
  readonly isLeaving: boolean;
  readonly done: number;
  readonly lastName: string;
  readonly lastResult: unknown;
  /** The unit that failed. */
  readonly failedName: string | undefined;
}

interface DoneUnit {
  readonly unit: Unit<unknown>;
  readonly result: unknown;
}

const NOTHING: DoneUnit = { unit: { name: 'nothing', run: () => undefined }, result: null };

/**
 * Counts the units that this rank has done, and keeps the ranks of an elastic run together. When the ring is formed
 * anew, all compare their counts, which differ by one at most: the last collective of a unit needs all ranks, so nobody
 * is done with it before all have begun it. Those who are behind take it as done, with the result of the others; if
 * nobody is behind, the unit that failed is run again.
 */
export class Units {
  /** Newcomers in the ring that hold nothing yet, by rank. */
  newcomers: readonly number[] = [];
  /** Whether a rank of this ring has left the one before to let newcomers in, since {@link beginCommit}. */
  hasAdmitted = false;
  private doneCount = 0;
  private last = NOTHING;
  /** Whether the ring was formed anew since {@link takeVerification} was asked. */
  private isUnverified = false;
  private readonly inside = new AsyncLocalStorage<true>();
  private tail: Promise<unknown> = Promise.resolve();
  private pending = 0;
  private isLeaving = false;
  /** Whether the ranks have compared since this process began. */
  private hasCompared = false;

  /** @param ring Undefined where the run is not elastic: then units are just run. */
  constructor(private readonly ring: UnitRing | undefined) {}

  /** Runs a unit, after those before it. Within another unit it is part of that. */
  async run<T>(unit: Unit<T>): Promise<T> {
    if (this.ring === undefined || this.inside.getStore()) return unit.run();
    const previous = this.tail;
    const result = (async () => {
      await previous.catch(() => undefined);
      return this.inside.run(true, () => this.complete(unit));
    })();
    this.tail = result.catch(() => undefined);
    return result;
  }

  /** {@link run}, asleep: its collectives must be, too. */
  runSync<T>(unit: SyncUnit<T>): T {
    if (this.ring === undefined || this.inside.getStore()) return unit.run();
    if (this.pending > 0) throw invalidArgument('Await what was called before: it must be over on all ranks first.');
    for (;;) {
      try {
        const taken = this.compareAtFirst(unit);
        return taken === undefined ? this.finish(unit, unit.run()) : (taken.result as T);
      } catch (error) {
        const taken = this.recover(unit, error);
        if (taken !== undefined) return taken.result as T;
      }
    }
  }

  /**
   * @throws GradringError `ERR_INVALID_ARGUMENT` within a unit, for what is one itself and must not be run again with
   *   it.
   */
  checkOutside(what: string): void {
    if (this.ring === undefined || !this.inside.getStore()) return;
    throw invalidArgument(`${what} cannot be part of allOrNone: it is all or none by itself, and would be done again.`);
  }

  /**
   * Whether the replicas should be compared after this unit, the first since the ring was formed anew. To be asked
   * within it, when nothing of it can fail any more: the answer is part of its result, so that those who take it do the
   * same.
   */
  takeVerification(): boolean {
    const isDue = this.isUnverified;
    this.isUnverified = false;
    return isDue;
  }

  /** Forgets those who were let in before. */
  beginCommit(): void {
    this.newcomers = [];
    this.hasAdmitted = false;
  }

  /** Within a unit: leaves the ring, as all do, for one that newcomers are let into. */
  admit(unit: Unit<unknown>): void {
    this.ring!.rejoin({ newcomer: false, admits: true });
    this.synchronize(unit);
  }

  /**
   * Sees to it, before this rank leaves, that all others have done what it has done. Their comm threads tell, whatever
   * the user's threads do. Only if a rank is lost meanwhile this one waits, asleep, for the next call of all, to give
   * what it has done to those who have not.
   *
   * @throws GradringError if there is no ring any more, or if the others call nothing for so long that they are not
   *   waited for.
   */
  async awaitOthers(): Promise<void> {
    if (this.ring === undefined) return;
    if (!this.inside.getStore()) await this.tail; // else it would wait for itself
    this.isLeaving = true;
    for (;;) {
      try {
        return await this.ring.awaitOthers();
      } catch (error) {
        if (!isLoss(error) || !this.ring.rejoin(STAY)) throw error;
        this.synchronizeAtLast();
      }
    }
  }

  /**
   * Waits until the others let this rank in, which holds nothing yet.
   *
   * @param receive Takes what the others give to newcomers, by collectives, asleep; from that rank.
   */
  async enter<T>(rejoin: () => Promise<void>, receive: (root: number) => T): Promise<T> {
    for (;;) {
      await rejoin();
      try {
        const reports = this.exchangeReports(undefined, true);
        const source = sourceOf(reports);
        if (source === undefined || reports[source]!.lastName !== COMMIT) continue; // whoever had let it in is lost
        // Those who were behind have caught up by now, so that the lowest rank is as good as any.
        const received = receive(reports.findIndex(({ isNewcomer }) => !isNewcomer));
        this.doneCount = reports[source]!.done;
        this.isUnverified = true;
        this.finish({ name: WELCOME, run: () => null }, null);
        return received;
      } catch (error) {
        if (!isLoss(error)) throw error;
      }
    }
  }

  private async complete<T>(unit: Unit<T>): Promise<T> {
    this.pending++;
    try {
      for (;;) {
        try {
          const taken = this.compareAtFirst(unit);
          return taken === undefined ? this.finish(unit, await unit.run()) : (taken.result as T);
        } catch (error) {
          const taken = this.recover(unit, error);
          if (taken !== undefined) return taken.result as T;
        }
      }
    } finally {
      this.pending--;
    }
  }

  private finish<T>(unit: Unit<T>, result: T): T {
    this.doneCount++;
    this.last = { unit: unit as Unit<unknown>, result };
    return result;
  }

  /**
   * Before the first unit. Others may have been in a ring before the first that this process knows of, and compare in
   * this one: their reports must not be taken for a collective of the unit. Returns what {@link recover} does.
   */
  private compareAtFirst<T>(unit: Unit<T>): DoneUnit | undefined {
    return this.hasCompared ? undefined : this.synchronize(unit as Unit<unknown>);
  }

  /** After a loss: what the others got of the unit, or undefined if it is to be run again. Throws what is no loss. */
  private recover<T>(unit: Unit<T>, error: unknown): DoneUnit | undefined {
    if (!isLoss(error) || !this.ring!.rejoin(STAY)) throw error;
    return this.synchronizeAtLast(unit as Unit<unknown>);
  }

  private synchronizeAtLast(failed?: Unit<unknown>): DoneUnit | undefined {
    for (;;) {
      try {
        return this.ring!.evenIfLeaving(() => this.synchronize(failed));
      } catch (error) {
        // Who has no more to do than to help others does not have them killed because they take their time.
        const isInVain = this.isLeaving && (error as GradringError).code === 'ERR_TIMEOUT';
        if (!isLoss(error) || isInVain || !this.ring!.rejoin(STAY)) throw error;
      }
    }
  }

  private synchronize(failed: Unit<unknown> | undefined): DoneUnit | undefined {
    const reports = this.exchangeReports(failed, false);
    const source = sourceOf(reports)!;
    const { done, lastName, lastResult } = reports[source]!;
    // What a rank that leaves has not done it will not do any more.
    const established = reports.filter(report => !report.isNewcomer && !(report.isLeaving && report.done < done));
    const behind = established.filter(report => report.done < done);
    requireSame(established, done, lastName);
    const isBehind = this.doneCount < done;
    if (isBehind && this.isLeaving) return undefined;
    if (behind.length > 0) {
      const unit = isBehind ? failed! : this.last.unit;
      unit.share?.(source, isBehind, lastResult);
      if (isBehind) this.finish(unit, lastResult);
    }
    this.isUnverified = true;
    this.newcomers = newcomersOf(reports);
    this.hasAdmitted ||= reports.some(({ failedName }) => failedName === WELCOME);
    return isBehind ? this.last : undefined;
  }

  private exchangeReports(failed: Unit<unknown> | undefined, isNewcomer: boolean): Report[] {
    const report: Report = {
      isNewcomer,
      isLeaving: this.isLeaving,
      done: this.doneCount,
      lastName: this.last.unit.name,
      lastResult: this.last.result ?? null,
      failedName: failed?.name,
    };
    const bytes = this.ring!.allGather(new TextEncoder().encode(JSON.stringify(report)));
    this.hasCompared = true;
    return bytes.map(each => JSON.parse(new TextDecoder().decode(each)) as Report);
  }
}

/** The name of the unit at whose end newcomers are let in, and of the one that gives them what they lack. */
export const COMMIT = 'commit';
export const WELCOME = 'welcome';

/** The lowest rank that has done the most. */
function sourceOf(reports: readonly Report[]): number | undefined {
  const most = Math.max(...reports.map(({ isNewcomer, done }) => (isNewcomer ? -1 : done)));
  const source = reports.findIndex(({ isNewcomer, done }) => !isNewcomer && done === most);
  return source === -1 ? undefined : source;
}

/** Those who are behind must have failed in what the others have done, and the others all in the same. */
function requireSame(established: readonly Report[], done: number, lastName: string): void {
  const failed = new Set(established.flatMap(report => (report.done === done ? (report.failedName ?? []) : [])));
  const fits = established.every(
    report => report.done === done || (report.done === done - 1 && report.failedName === lastName),
  );
  if (fits && failed.size <= 1) return;
  const words = established.map(
    ({ done, lastName, failedName }) => `${done} units up to '${lastName}', within '${failedName ?? 'none'}'`,
  );
  throw new GradringError('ERR_COLLECTIVE_MISMATCH', `In a new ring, the ranks had done: ${words.join('; ')}.`);
}

function newcomersOf(reports: readonly Report[]): number[] {
  return reports.flatMap(({ isNewcomer }, rank) => (isNewcomer ? [rank] : []));
}
