import type { AllReduceAlgorithm } from '../rendezvous/algorithm';
import { Coordinator } from '../rendezvous/coordinator';
import { CoordinatorSocket } from '../rendezvous/coordinator-socket';
import type { Encryption } from '../rendezvous/run-security';
import type { LaunchEnd } from './launch';
import type { ElasticPlan, LaunchPlan } from './launch-options';
import { type Meeting, rankCommand } from './rank-command';
import { Patience } from './patience';
import type { RankOutputs } from './rank-outputs';
import { type RankOutcome, RankProcess } from './rank-process';
import { Seats } from './seats';
import { FORWARDED_SIGNALS, type ForwardedSignal } from './signals';
import { describeLastWords } from './summary';

/** How an elastic run ended. */
export interface ElasticEnd extends LaunchEnd {
  /** Of each rank's last process. */
  readonly outcomes: readonly RankOutcome[];
}

/**
 * Ranks that are lost at the same time are lost together: what becomes of the run is decided when so long nobody else
 * was.
 */
const SETTLING_MS = 500;

/**
 * A launch that goes on when ranks are lost, while enough are left: holds the rendezvous for the rings of all
 * generations, tells it who is lost, and starts lost ranks again, or all where too few are left, while there are
 * restarts.
 */
export class ElasticRun {
  private readonly seats: Seats;
  private readonly coordinator: Coordinator;
  private restarts = 0;
  /** Since all were started; the first cause comes first. */
  private losses: RankOutcome[] = [];
  private unsettled: RankOutcome[] = [];
  private settling: NodeJS.Timeout | undefined;
  /** All are to end: to be started again, or because the run has failed. */
  private ending: 'to start again' | 'failed' | undefined;
  private rootCause: RankOutcome | undefined;
  private interruptedBy: ForwardedSignal | undefined;
  private readonly received = new Set<ForwardedSignal>();
  private graceTimer: NodeJS.Timeout | undefined;
  private readonly patience = new Patience(
    () => this.seats.running,
    line => void this.outputs.say([line]),
  );
  private readonly relays: Promise<void>[] = [];
  /** By rank: resolves when all output of its last process has been taken. */
  private readonly lastRelays: Promise<void>[] = [];
  private over: () => void = () => undefined;

  private constructor(
    private readonly plan: LaunchPlan,
    private readonly elastic: ElasticPlan,
    private readonly meeting: Meeting,
    private readonly outputs: RankOutputs,
  ) {
    this.seats = new Seats(plan.ranks);
    this.coordinator = new Coordinator({
      worldSize: plan.ranks,
      runId: meeting.runId,
      encryption: encryptionOf(plan),
      algorithm: (environmentOf(plan)['GRADRING_ALGORITHM'] || 'ring') as AllReduceAlgorithm,
      mayForm: () => this.leftCount >= elastic.min,
      onFormed: (generation, members) => this.onFormed(generation, members),
      onAbsent: members => this.onAbsent(members),
    });
  }

  static async run(
    plan: LaunchPlan,
    elastic: ElasticPlan,
    meeting: Meeting,
    outputs: RankOutputs,
  ): Promise<ElasticEnd> {
    const run = new ElasticRun(plan, elastic, meeting, outputs);
    const place = { masterAddr: plan.masterAddr, ...meeting, encryption: encryptionOf(plan) };
    const socket = CoordinatorSocket.open(place, run.coordinator);
    try {
      return await run.untilOver();
    } finally {
      await socket.close();
    }
  }

  private async untilOver(): Promise<ElasticEnd> {
    const handlers = FORWARDED_SIGNALS.map(signal => [signal, () => this.receive(signal)] as const);
    for (const [signal, handler] of handlers) process.on(signal, handler);
    try {
      do {
        this.ending = undefined;
        this.losses = [];
        this.coordinator.reset();
        const over = new Promise<void>(resolve => (this.over = resolve));
        await this.startAll();
        await over;
        this.patience.end();
        clearTimeout(this.graceTimer);
        this.graceTimer = undefined;
      } while (this.ending === 'to start again' && this.interruptedBy === undefined);
    } finally {
      clearTimeout(this.settling);
      for (const [signal, handler] of handlers) process.off(signal, handler);
    }
    await Promise.all(this.relays);
    const { rootCause, interruptedBy } = this;
    return { rootCause, interruptedBy, outcomes: this.seats.outcomes };
  }

  private async startAll(): Promise<void> {
    try {
      await Promise.all(this.seats.all.map(seat => this.start(seat.rank, 'member').started));
    } catch (error) {
      this.seats.kill();
      throw error;
    }
  }

  private start(rank: number, role: 'member' | 'newcomer'): RankProcess {
    const command = rankCommand(this.plan, this.meeting, this.outputs, rank, { GRADRING_ELASTIC: role });
    const child = new RankProcess(command);
    this.seats.take(rank, child, role);
    this.lastRelays[rank] = child.started.then(() => this.outputs.relay(child)).catch(() => undefined);
    this.relays.push(this.lastRelays[rank]);
    void child.ended.then(outcome => this.onEnded(outcome));
    child.started.catch(() => {
      this.seats.vacate(rank);
      this.endIfOver();
    });
    return child;
  }

  private onEnded(outcome: RankOutcome): void {
    const { rank } = outcome;
    const before = this.seats.leave(outcome);
    this.coordinator.lose(rank, `rank ${rank} ended`);
    if (outcome.exitCode === 0) this.patience.begin();
    const isLoss = outcome.exitCode !== 0 && before !== 'unneeded';
    if (isLoss && this.ending === undefined && this.interruptedBy === undefined) {
      this.unsettled.push(outcome);
      clearTimeout(this.settling);
      this.settling = setTimeout(() => this.settle(), SETTLING_MS);
    }
    this.endIfOver();
  }

  private endIfOver(): void {
    if (this.unsettled.length > 0) return; // one of them may be started again
    if (this.seats.running.length === 0) return this.over();
    // Nobody is left to let in those who wait.
    if (this.seats.in('ring').length === 0 && this.seats.in('finished').length > 0) this.seats.dismissNewcomers();
  }

  /** Decides what becomes of the run after losses. */
  private settle(): void {
    const losses = this.unsettled.splice(0);
    if (this.interruptedBy !== undefined) return this.endIfOver();
    this.losses.push(...losses);
    const left = this.leftCount;
    const { min } = this.elastic;
    const lost = losses.map(describe).join(', ');
    if (left < min) {
      const why = left > 0 || !areAlike(losses) ? this.whyNoRestart() : 'all failed by themselves, as they would again';
      this.ending = why === undefined ? 'to start again' : 'failed';
      // A rank that was killed takes others with it, which then exit with errors; not the other way round.
      if (why !== undefined) this.rootCause = losses.find(({ signal }) => signal !== null) ?? losses[0];
      this.say(
        `${lost}; ${counted(left)} left, fewer than ${min}: ${why ?? `all are started again (${this.nextRestart()})`}`,
      );
      this.askAll('SIGTERM');
    } else {
      this.say(`${lost}; ${counted(left)} ${left === 1 ? 'goes' : 'go'} on`);
      const unable = new Set(this.seats.in('unable').map(({ rank }) => rank));
      for (const { rank } of losses) {
        if (unable.has(rank)) this.relays.push(this.tellUnable(rank));
        else if (this.seats.in('finished').length === 0) this.replace(rank);
      }
    }
    this.endIfOver();
  }

  /** Ranks that are in the ring, or have done their work. */
  private get leftCount(): number {
    return this.seats.in('ring').length + this.seats.in('finished').length;
  }

  private whyNoRestart(): string | undefined {
    return this.restarts < this.elastic.maxRestarts ? undefined : 'no restart is left';
  }

  private replace(rank: number): void {
    if (this.whyNoRestart() !== undefined) return;
    this.say(`rank ${rank} is started again (${this.nextRestart()}), and joins when the others let it in`);
    try {
      this.start(rank, 'newcomer').started.catch((error: Error) => this.say(error.message));
    } catch (error) {
      this.say((error as Error).message);
    }
  }

  private async tellUnable(rank: number): Promise<void> {
    await this.lastRelays[rank];
    await this.outputs.say([
      `gradring: rank ${rank} is not started again: it failed by itself before the others let it in, and would fail again. ` +
        'Correct the script for the next run: a process that is started again runs it from the beginning, and must call ' +
        'ring.join(…) or checkpoint.resume() before it trains.',
      ...describeLastWords(rank, this.outputs.lastWords(rank)),
    ]);
  }

  /** Counts one more. */
  private nextRestart(): string {
    return `restart ${++this.restarts} of ${this.elastic.maxRestarts}`;
  }

  private onFormed(generation: number, members: readonly number[]): void {
    const isFirst = !this.seats.hasRing;
    this.seats.admit(members);
    if (!isFirst) this.say(`generation ${generation} stands: ${counted(members.length)}, ${members.join(', ')}`);
  }

  private onAbsent(members: readonly number[]): void {
    for (const rank of members) {
      this.say(`rank ${rank} does not answer, and is killed`);
      this.seats.kill(rank);
    }
  }

  /** Takes a signal that the launcher got. */
  private receive(signal: ForwardedSignal): void {
    if (this.received.has(signal)) return this.seats.kill();
    this.received.add(signal);
    if (this.ending !== 'failed') this.interruptedBy ??= signal;
    this.askAll(signal);
  }

  private askAll(signal: NodeJS.Signals): void {
    for (const child of this.seats.running) child.signal(signal);
    this.graceTimer ??= setTimeout(() => this.seats.kill(), this.plan.graceMs);
  }

  private say(words: string): void {
    void this.outputs.say([`gradring: ${words}.`]);
  }
}

/** Whether several ranks ended with an error of their own: NaN in a gradient, say, which all get to know. */
function areAlike(losses: readonly RankOutcome[]): boolean {
  return losses.length > 1 && losses.every(({ signal }) => signal === null);
}

function describe({ rank, pid, signal, exitCode }: RankOutcome): string {
  return `rank ${rank} (pid ${pid}) was lost (${signal ?? `exit code ${exitCode}`})`;
}

function counted(ranks: number): string {
  return `${ranks} ${ranks === 1 ? 'rank' : 'ranks'}`;
}

function encryptionOf(plan: LaunchPlan): Encryption {
  return (environmentOf(plan)['GRADRING_ENCRYPTION'] || 'auto') as Encryption;
}

/** As the ranks find it, who check what it says. */
function environmentOf(plan: LaunchPlan): NodeJS.ProcessEnv {
  return { ...process.env, ...plan.env };
}
