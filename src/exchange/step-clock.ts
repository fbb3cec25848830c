import type { CollectiveCall } from '../collectives/collective-call';
import type { Listener, Span, SpanArguments } from '../observer';
import type { StepTimes } from './messages';

/** Records the stages of a step of an exchange, and adds up the time that it spends in each kind of span. */
export class StepClock implements Listener {
  readonly kinds = ['compress', 'encode', 'decode'] as const;
  /** So far. */
  readonly timesMs: { -readonly [kind in keyof StepTimes]: number } = { compress: 0, encode: 0, travel: 0, decode: 0 };

  constructor(
    private readonly call: CollectiveCall,
    private readonly args: SpanArguments,
  ) {}

  onSpan({ kind, start, end }: Span): void {
    this.timesMs[kind as (typeof this.kinds)[number]] += (end - start) / 1000;
  }

  /** Runs a stage, until its promise has settled if it returns one. */
  async stage<T>(kind: (typeof this.kinds)[number], stage: string, run: () => T): Promise<Awaited<T>> {
    const { sequence, observer } = this.call;
    return await observer.record(kind, { sequence, stage, ...this.args }, run);
  }

  /** Runs the collective. It travels until its last frame has come. */
  async travel<T>(run: () => Promise<T>): Promise<T> {
    const start = performance.now();
    const result = await run();
    const { last = start } = this.call.frameTimes; // none in a ring of one
    this.timesMs.travel += last - start;
    return result;
  }
}
