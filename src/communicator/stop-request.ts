import { setImmediate } from 'node:timers/promises';
import { tellLauncher } from '../environment/launcher-pipe';
import { STOPPED_EXIT_CODE } from '../environment/stop';

export { STOPPED_EXIT_CODE };

const SIGNALS = ['SIGTERM', 'SIGUSR1'] as const;
type StopSignal = (typeof SIGNALS)[number];

/** Whether this rank was told to stop: by a signal, or because its time is over. */
export class StopRequest {
  private signal: StopSignal | undefined;
  private isListening = false;
  private isAnswered = false;
  private readonly note = (signal: StopSignal) => void (this.signal ??= signal);

  /** @param afterMs When its time is over, in ms since this thread began. Undefined: never. */
  constructor(private readonly afterMs = Infinity) {}

  /** From now on these signals do not end the process. */
  listen(): void {
    if (this.isListening) return;
    this.isListening = true;
    for (const signal of SIGNALS) process.on(signal, this.note);
    tellLauncher({ kind: 'listens', isListening: true });
  }

  /** All ranks have saved, and this process is about to end by itself. */
  answer(): void {
    this.isAnswered = true;
  }

  /** They do again. SIGTERM ends the process now, if it has come and was not answered. */
  ignore(): void {
    if (!this.isListening || this.isAnswered) return;
    this.isListening = false;
    tellLauncher({ kind: 'listens', isListening: false });
    for (const signal of SIGNALS) process.off(signal, this.note);
    if (this.signal === 'SIGTERM') process.kill(process.pid, 'SIGTERM');
    this.signal = undefined;
  }

  /** Lets signals arrive: Node handles them between two turns of its event loop, and steps may follow without one. */
  async turn(): Promise<void> {
    if (this.isListening) await setImmediate();
  }

  /** Why this rank should stop, in words. Undefined: it need not. */
  get reason(): string | undefined {
    if (this.signal !== undefined) return `this rank was told to stop (${this.signal})`;
    return performance.now() >= this.afterMs ? 'the time of this rank is over' : undefined;
  }
}
