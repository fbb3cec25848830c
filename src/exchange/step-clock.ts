import type { CollectiveCall } from '../collectives/collective-call';
import type { SpanArguments } from '../timeline/trace-event';
import { recorded } from '../timeline/timeline';
import type { StepTimes } from './messages';

/** Measures the stages of a step of an exchange, and records them on the timeline, if there is one. */
export class StepClock {
  private readonly times = { compress: 0, encode: 0, travel: 0, decode: 0 };

  constructor(
    private readonly call: CollectiveCall,
    private readonly args: SpanArguments,
  ) {}

  /** So far. */
  get timesMs(): StepTimes {
    return { ...this.times };
  }

  /** Runs a stage, until its promise has settled if it returns one. */
  async stage<T>(name: 'compress' | 'encode' | 'decode', stage: string, run: () => T): Promise<Awaited<T>> {
    const { sequence, timeline } = this.call;
    const start = performance.now();
    const result = await recorded(timeline, name, { sequence, stage, ...this.args }, run);
    this.times[name] += performance.now() - start;
    return result;
  }

  /** Runs the collective. What follows its last frame counts as decoding. */
  async travel<T>(run: () => Promise<T>): Promise<T> {
    const start = performance.now();
    const result = await run();
    const end = performance.now();
    const { last = start } = this.call.frameTimes; // none in a ring of one
    this.times.travel += last - start;
    this.times.decode += end - last;
    return result;
  }
}
