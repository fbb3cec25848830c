import { GradringError } from '../errors';
import type { RankState } from '../transport/control/roll-call';
import type { Transport } from '../transport/transport';
import { type CallFingerprint, Operation, Purpose } from '../wire/frame';
import type { StepSettings } from '../wire/rank-status';
import { wakingNow, WakingTimer } from '../waking-time';
import { describeAll, describeNumbered, findAbsent, hasCalled } from './absent-ranks';

/** A collective that is under way. */
export interface WatchedCall {
  readonly fingerprint: CallFingerprint;
  readonly sequence: number;
  /** The optimizer's step, if the collective belongs to one. */
  readonly step: number | undefined;
  /** The settings of that step. */
  readonly settings: StepSettings | undefined;
}

export interface StallOptions {
  /** The timeout of a collective. */
  readonly timeoutMs: number;
  /** A collective that has waited this long is reported on stderr, again after twice as long, and so on. 0: never. */
  readonly stallMs: number;
}

/** How long to wait for the answers to a question, at most. */
const ANSWERS_MS = 1_000;

/** How long before the timeout this rank asks which ranks are missing, at most. */
const LAST_QUESTION_MS = 5_000;

/** Answers that arrived this long before the question count, too. */
const FRESH_MS = 300;

const NO_CALL: CallFingerprint = {
  ...{ operation: Operation.None, purpose: Purpose.Call, elementType: 'none', reduction: 'none' },
  ...{ elementCount: 0, parameter: 0 },
};

/**
 * Watches the collective that is under way. After a while it reports which ranks the collective waits for, and what
 * they are doing. Of all ranks that wait, only the lowest reports. At the timeout it ends the collective.
 */
export class StallWatch {
  private call: WatchedCall = { fingerprint: NO_CALL, sequence: -1, step: undefined, settings: undefined };
  private isCalling = false;
  /** When the collective began, or ended. */
  private changedAt = wakingNow();
  private timer: WakingTimer | undefined;
  private reportTimer: WakingTimer | undefined;
  /** Relative to the call's beginning, in ms. */
  private questionAt = Infinity;
  private pauseMs = Infinity;
  /** When this rank first asked for the sake of the error at the timeout. */
  private firstAskedAt: number | undefined;
  /** When it last asked, relative to the call's beginning. */
  private lastAskedMs = 0;

  constructor(
    private readonly transport: Transport,
    private readonly options: StallOptions,
    /** Prints one line. */
    private readonly say: (line: string) => void,
  ) {
    transport.rollCall.attend(
      () => this.state(),
      () => this.onAsked(),
    );
  }

  /** A collective begins. */
  begin(call: WatchedCall): void {
    this.call = call;
    this.isCalling = true;
    this.changedAt = wakingNow();
    this.questionAt = this.pauseMs = this.options.stallMs === 0 ? Infinity : this.options.stallMs;
    this.firstAskedAt = undefined;
    this.wait();
  }

  /** The collective has ended, with or without an error. */
  end(): void {
    this.timer?.cancel();
    this.reportTimer?.cancel();
    this.reportTimer = undefined;
    this.isCalling = false;
    this.changedAt = wakingNow();
  }

  private get elapsedMs(): number {
    return wakingNow() - this.changedAt;
  }

  /**
   * When this rank next asks which ranks are missing, so that the error at the timeout can name them: some seconds
   * before the timeout, and then each second.
   */
  private get nextQuestionAt(): number {
    const { timeoutMs } = this.options;
    if (this.firstAskedAt === undefined) return timeoutMs - Math.min(timeoutMs / 2, LAST_QUESTION_MS);
    const next = this.lastAskedMs + ANSWERS_MS;
    return next < timeoutMs - ANSWERS_MS / 2 ? next : Infinity;
  }

  private wait(): void {
    const next = Math.min(this.questionAt, this.nextQuestionAt, this.options.timeoutMs);
    this.timer = new WakingTimer(() => this.onTimer(), Math.max(0, next - this.elapsedMs));
  }

  private onTimer(): void {
    const elapsed = Math.ceil(this.elapsedMs) + 1; // timers may come a little early
    if (elapsed >= this.options.timeoutMs) return void this.transport.fail(this.timeoutError());
    if (elapsed >= this.questionAt) {
      this.transport.rollCall.ask('report');
      this.onAsked();
    } else if (elapsed >= this.nextQuestionAt) {
      this.transport.rollCall.ask('answers');
      this.lastAskedMs = this.elapsedMs;
      this.firstAskedAt ??= performance.now();
    }
    this.wait();
  }

  /** All ranks were asked for a report, by this rank or another. So this rank need not ask again so soon. */
  private onAsked(): void {
    if (!this.isCalling || this.options.stallMs === 0 || this.reportTimer !== undefined) return;
    this.pauseMs *= 2;
    this.questionAt = this.elapsedMs + this.pauseMs;
    const askedAt = performance.now();
    this.reportTimer = new WakingTimer(
      () => {
        this.reportTimer = undefined;
        this.report(askedAt);
      },
      Math.min(ANSWERS_MS, this.options.stallMs),
    );
  }

  private state(): RankState {
    const { fingerprint, sequence, step } = this.call;
    const { isCalling, elapsedMs } = this;
    const settings = isCalling ? this.call.settings : undefined;
    return { call: fingerprint, sequence: Math.max(0, sequence), isCalling, sinceMs: elapsedMs, step, settings };
  }

  private report(askedAt: number): void {
    const { rank } = this.transport;
    const { sequence } = this.call;
    const answers = this.transport.rollCall.answers(askedAt - FRESH_MS);
    const waiting = [...answers].filter(([, state]) => state.isCalling && state.sequence === sequence);
    if (waiting.some(([other]) => other < rank)) return; // that rank reports it
    const subject = waiting.length === 0 ? `rank ${rank} has` : `${waiting.length + 1} ranks have`;
    const seconds = Math.round(Math.max(this.elapsedMs, ...waiting.map(([, { sinceMs }]) => sinceMs)) / 1000);
    const why = describeAll(findAbsent(this.transport, sequence, answers));
    this.say(`gradring: ${subject} waited ${seconds} s in ${describeNumbered(this.state())}: ${why}.`);
  }

  private timeoutError(): GradringError {
    const { transport, firstAskedAt } = this;
    const state = this.state();
    const absent =
      firstAskedAt === undefined
        ? undefined
        : findAbsent(transport, state.sequence, transport.rollCall.answers(firstAskedAt - FRESH_MS));
    const why =
      absent === undefined ? 'it could not ask the others why, perhaps because it was stopped' : describeAll(absent);
    const words = `Rank ${transport.rank} waited ${this.options.timeoutMs} ms in ${describeNumbered(state)}: ${why}.`;
    // One that said so before has called it, even if it has not answered since.
    const called = transport.rollCall.answers(0);
    const blamed = absent?.find(({ rank }) => !hasCalled(called.get(rank), state.sequence)) ?? absent?.[0];
    return new GradringError('ERR_TIMEOUT', words, blamed && { rank: blamed.rank });
  }
}
