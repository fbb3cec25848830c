import { setImmediate } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';
import { tellLauncher } from '../environment/launcher-pipe';
import { STOPPED_EXIT_CODE } from '../environment/stop';

export { STOPPED_EXIT_CODE };

/** SIGUSR1, for the whole process. Once there is a listener, it stays: without one the signal would end the process. */
const notified = { isListening: false, hasCome: false };

/** Whether this rank was told to stop: by a signal, or because its time is over. */
export class StopRequest {
  /** Whether the training saves if this rank should stop. */
  private isAwaited = false;
  private isTerminated = false;
  private hasSaved = false;
  private readonly noteTermination = () => void (this.isTerminated = true);

  /** @param afterMs When its time is over, in ms since this thread began. Undefined: never. */
  constructor(private readonly afterMs = Infinity) {}

  /** From now on SIGTERM and SIGUSR1 do not end the process. Worker threads get no signals. */
  listen(): void {
    if (this.isAwaited) return;
    this.isAwaited = true;
    if (!isMainThread) return;
    process.on('SIGTERM', this.noteTermination);
    if (!notified.isListening) process.on('SIGUSR1', () => void (notified.hasCome = true));
    notified.isListening = true;
    tellLauncher({ kind: 'listens', isListening: true });
  }

  /** All ranks have saved, and this process is about to end by itself. */
  markSaved(): void {
    this.hasSaved = true;
    tellLauncher({ kind: 'saved' });
  }

  /**
   * SIGTERM ends the process again.
   *
   * @param raises Whether it does so now, if it has come and the ranks have not saved. Otherwise an error of the
   *   training will be told instead.
   */
  stopListening(raises: boolean): void {
    if (!this.isAwaited || this.hasSaved) return;
    this.isAwaited = false;
    if (!isMainThread) return;
    tellLauncher({ kind: 'listens', isListening: false });
    process.off('SIGTERM', this.noteTermination);
    if (this.isTerminated && raises) process.kill(process.pid, 'SIGTERM');
  }

  /** Lets signals arrive: Node handles them between two turns of its event loop, and steps may follow without one. */
  async letSignalsArrive(): Promise<void> {
    if (this.isAwaited) await setImmediate();
  }

  /** Why this rank should stop, in words. Undefined: it need not, or nobody would save. */
  get reason(): string | undefined {
    if (!this.isAwaited) return undefined;
    const signal = this.isTerminated ? 'SIGTERM' : notified.hasCome ? 'SIGUSR1' : undefined;
    if (signal !== undefined) return `this rank was told to stop (${signal})`;
    return performance.now() >= this.afterMs ? 'the time of this rank is over' : undefined;
  }
}
