import { counted, listed } from '../counted';
import { agreedValues, RANK_OPTIONS, readRankOption, readRankOptions } from '../environment/rank-options';
import { untilFilesCanBeOpened } from '../open-files';
import { Coordinator } from '../rendezvous/coordinator';
import { CoordinatorSocket } from '../rendezvous/coordinator-socket';
import { type RunSecurity, securityOf } from '../rendezvous/run-security';
import type { ElasticPlan, LaunchPlan } from './launch-options';
import { MemberStates, middleOf } from './member-states';
import type { RankOutputs } from './rank-outputs';
import type { RankOutcome } from './rank-process';
import type { Meeting, RankStarter } from './rank-starter';
import { wakingNow } from '../waking-time';
import { describeLastWords } from './summary';
import { endedWell, type RunEnd, type RunPolicy, type Supervisor } from './supervisor';

/** When members do not connect in two attempts or more in succession, for so long, one of them is killed. */
const UNCONNECTED_MS = 10_000;

/** The launcher holds three pipes to each rank, and its connection to the rendezvous. */
const LAUNCHER_FILES_PER_RANK = 4;

/** What an elastic run needs. */
export interface ElasticInput {
  readonly plan: LaunchPlan;
  readonly elastic: ElasticPlan;
  readonly starter: RankStarter;
  readonly meeting: Meeting;
  readonly outputs: RankOutputs;
}

/**
 * The policy of an elastic run: the ranks continue after losses while enough are left. The launcher holds the
 * rendezvous for the rings of all generations, and tells it which ranks are lost. While there are restarts, it starts
 * lost ranks again, or all ranks if too few are left.
 */
export class ElasticRun implements RunPolicy {
  readonly variables = { GRADRING_ELASTIC: 'member' };
  readonly needsAll = false;
  members: readonly number[] | undefined;
  /** The others of several ranks that fail of the same end within this time, even on a busy host. */
  readonly settlingMs = 1_500;
  readonly failureGraceMs = 0;
  private readonly states: MemberStates;
  private readonly coordinator: Coordinator;
  private readonly security: RunSecurity | undefined;
  private restarts = 0;
  /** Since when members come, but do not connect to their neighbours. */
  private unconnectedSince: number | undefined;
  /** Ranks whose processes have ended with exit code 0, but have not left the ring. They may be done nevertheless. */
  private readonly vanished = new Set<number>();

  private constructor(
    private readonly supervisor: Supervisor,
    private readonly input: ElasticInput,
  ) {
    const { plan, elastic, meeting } = input;
    this.states = new MemberStates(plan.ranks);
    const { runId, runToken } = meeting;
    // As the ranks get it, which check its values. An interface is one of their host.
    const env = { ...process.env, ...plan.env, [RANK_OPTIONS.iface.variable]: undefined };
    this.security = securityOf({ runToken, encryption: readRankOption('encryption', undefined, env) });
    this.coordinator = new Coordinator({
      worldSize: plan.ranks,
      runId,
      agreed: agreedValues(readRankOptions({}, env)),
      needsKeys: this.security !== undefined,
      policy: {
        holder: 'the launcher',
        isElastic: true,
        mayForm: () => this.leftCount >= elastic.min,
        waitMs: (_, patienceMs) => patienceMs,
        onFormed: (generation, members) => this.onFormed(generation, members),
        onAbsent: members => this.killAbsent(members),
        onUnconnected: (members, ring) => this.endUnconnected(members, ring),
      },
    });
  }

  /** Runs all ranks to their end. */
  static async run(supervisor: Supervisor, input: ElasticInput): Promise<RunEnd> {
    const run = new ElasticRun(supervisor, input);
    try {
      return await run.untilOver();
    } finally {
      run.security?.gate.closeAuthenticator();
    }
  }

  private async untilOver(): Promise<RunEnd> {
    const { plan, meeting } = this.input;
    const { masterAddr, masterPort } = meeting;
    await untilFilesCanBeOpened(LAUNCHER_FILES_PER_RANK * plan.ranks, 'The launcher');
    const socket = CoordinatorSocket.open({ masterAddr, masterPort, security: this.security }, this.coordinator);
    try {
      return await this.supervisor.run(this);
    } finally {
      await socket.close();
    }
  }

  onStart(): void {
    this.coordinator.reset();
    this.states.enterAll();
    this.vanished.clear();
  }

  onEnded(outcome: RankOutcome): boolean {
    const { rank, exitCode } = outcome;
    const before = this.states.leave(outcome);
    const wasInRing = this.states.hasRing && before === 'ring';
    this.unconnectedSince = undefined;
    if (wasInRing && exitCode === 0 && !this.supervisor.hasLeft(rank)) this.vanished.add(rank);
    this.coordinator.lose(rank, `rank ${rank} ended`);
    const isLoss = !endedWell(outcome) && before !== 'unneeded';
    if (!isLoss) this.dismissNewcomers();
    return isLoss;
  }

  decide(losses: readonly RankOutcome[]): 'go on' | 'fail' | 'start again' {
    const left = this.leftCount;
    const { min } = this.input.elastic;
    const lost = losses.map(describe).join(', ');
    if (left < min) {
      const why =
        left > 0 || !areAlike(losses)
          ? this.whyNoRestart(this.input.plan.seats.keys())
          : 'all failed by themselves, and would again';
      this.say(
        `${lost}; ${counted(left, 'rank')} left, fewer than ${min}: ${why ?? `all are started again (${this.nextRestart()})`}`,
      );
      return why === undefined ? 'start again' : 'fail';
    }
    this.say(`${lost}; ${counted(left, 'rank')} ${left === 1 ? 'continues' : 'continue'}`);
    const unable = this.states.in('unable');
    for (const { rank } of losses) {
      if (unable.includes(rank)) this.tellUnable(rank);
      else this.replace(rank);
    }
    this.dismissNewcomers();
    return 'go on';
  }

  /** How many ranks are in the ring, or have finished. */
  private get leftCount(): number {
    return this.states.in('ring').length + this.states.in('finished').length;
  }

  /** Ends the ranks that wait to be let in, if no rank is left that could let them in. */
  private dismissNewcomers(): void {
    if (this.states.in('ring').length > 0 || this.states.in('finished').length === 0) return;
    for (const rank of this.states.in('waiting')) {
      this.say(
        `rank ${rank} was started again, but comes too late, and is ended: the others were done before they let it in, as they do at the end of an epoch or in ring.commit`,
      );
      this.states.set(rank, 'unneeded');
      this.supervisor.kill(rank);
    }
  }

  /** Why a single lost rank is not started again. Undefined: it is. */
  private whyNoReplacement(rank: number): string | undefined {
    const [done] = this.states.in('finished');
    return done === undefined ? this.whyNoRestart([rank]) : `rank ${done} is done, so the others will be soon`;
  }

  /** Why these ranks are not started again. Undefined: they are. */
  private whyNoRestart(ranks: Iterable<number>): string | undefined {
    if (this.restarts >= this.input.elastic.maxRestarts) return 'no restart is left';
    for (const rank of ranks) {
      const why = this.input.starter.whyNoStart(rank);
      if (why !== undefined) return why;
    }
    return undefined;
  }

  private replace(rank: number): void {
    const why = this.whyNoReplacement(rank);
    if (why !== undefined) {
      if (this.input.elastic.maxRestarts > 0) this.say(`rank ${rank} is not started again: ${why}`);
      return;
    }
    this.say(`rank ${rank} is started again (${this.nextRestart()}), and joins when the others let it in`);
    const fail = (error: unknown) => {
      this.states.set(rank, 'lost');
      this.say((error as Error).message.replace(/\.$/, ''));
    };
    try {
      this.states.set(rank, 'waiting');
      this.supervisor.start(rank, { GRADRING_ELASTIC: 'newcomer' }).started.catch(fail);
    } catch (error) {
      fail(error);
    }
  }

  private tellUnable(rank: number): void {
    this.supervisor.sayAfter(rank, () => [
      `gradring: rank ${rank} is not started again: it failed by itself before the others let it in, and would fail again. ` +
        'Correct the script for the next run: a process that is started again runs it from the beginning, and must call ' +
        'ring.join(…) or checkpoint.resume() before it trains.',
      ...describeLastWords(rank, this.input.outputs.lastWords(rank)),
    ]);
  }

  /** Counts one more restart. */
  private nextRestart(): string {
    return `restart ${++this.restarts} of ${this.input.elastic.maxRestarts}`;
  }

  private onFormed(generation: number, members: readonly number[]): void {
    const isFirst = !this.states.hasRing;
    this.members = members;
    this.unconnectedSince = undefined;
    this.states.admit(members);
    if (!isFirst)
      this.say(`generation ${generation} has formed: ${counted(members.length, 'rank')}, ${members.join(', ')}`);
    this.loseVanished();
  }

  /** The others go on without these ranks, so they were not done. They are lost, if enough ranks are left. */
  private loseVanished(): void {
    for (const rank of this.vanished) {
      if (this.leftCount <= this.input.elastic.min) break;
      this.say(`rank ${rank} has called process.exit before the others were done, and without ring.close()`);
      this.states.set(rank, 'lost');
      this.supervisor.lose(rank);
    }
    this.vanished.clear();
  }

  private killAbsent(members: readonly number[]): undefined {
    this.unconnectedSince = undefined;
    for (const rank of members) {
      this.say(`rank ${rank} does not answer, and is killed`);
      // One that has come from a host that was lost meanwhile has no process that the launcher knows.
      if (!this.supervisor.kill(rank)) this.coordinator.lose(rank, `rank ${rank} is gone`);
    }
  }

  /**
   * The network between these members may be cut, though each reaches the launcher. Without one of them a ring can
   * form. A newcomer goes first: it has nothing yet that the others lack.
   */
  private endUnconnected(members: readonly number[], ring: readonly number[]): void {
    if (!this.states.hasRing) return;
    const newcomers = this.states.in('waiting').filter(rank => members.includes(rank));
    const isFirst = this.unconnectedSince === undefined;
    this.unconnectedSince ??= wakingNow();
    const words = `${listed('rank', members)} cannot connect to their neighbours`;
    if (newcomers.length > 0) {
      for (const rank of newcomers) {
        this.say(`${words}; rank ${rank} was started again, and is ended`);
        this.states.set(rank, 'unneeded');
        this.supervisor.kill(rank);
      }
    } else if (isFirst || wakingNow() - this.unconnectedSince < UNCONNECTED_MS) {
      if (isFirst) this.say(`${words}, and try it again`);
    } else if (this.leftCount > this.input.elastic.min) {
      const rank = middleOf(members, ring);
      this.say(`${words}; rank ${rank} is killed, so that the others can continue`);
      this.supervisor.kill(rank);
    }
  }

  private say(words: string): void {
    void this.input.outputs.say([`gradring: ${words}.`]);
  }
}

/** Whether several ranks ended by an error of their own, such as NaN in a gradient, which all ranks are told. */
function areAlike(losses: readonly RankOutcome[]): boolean {
  return losses.length > 1 && losses.every(({ signal }) => signal === null);
}

function describe({ rank, pid, host, signal, exitCode }: RankOutcome): string {
  return `rank ${rank} (pid ${pid}${host === undefined ? '' : ` on ${host}`}) was lost (${signal ?? `exit code ${exitCode}`})`;
}
