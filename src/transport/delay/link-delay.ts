import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { ownFile } from '../../own-file';
import type { Delay } from './delay-line';

/** How long the thread has for what is still to be delivered, beside the delay. */
const LAST_BYTES_MS = 200;

/** Asks the thread to forward a port. */
export interface ForwardRequest {
  /** The address of both ports. Undefined: all addresses of the host. */
  readonly host: string | undefined;
  /** The port to listen at. 0: one that the system chooses. */
  readonly from: number;
  readonly to: number;
}

export type ForwardAnswer =
  { readonly port: number } | { readonly error: { readonly message: string; readonly code: string | undefined } };

/**
 * Makes the links and lanes of a rank as slow to answer as distant hosts, for experiments: neighbours connect to a
 * port that forwards to the rank's own, and everything that it forwards arrives late, in both directions. So ZeroMQ's
 * handshakes and heartbeats are as late as data. A thread of its own forwards, so that it does not matter what the
 * others compute.
 */
export class LinkDelay {
  private readonly thread: Worker;
  private closing: Promise<void> | undefined;

  constructor(private readonly delay: Delay) {
    this.thread = new Worker(ownFile('transport/delay/delay-thread.js'), { workerData: delay });
    this.thread.unref();
  }

  /** Forwards a port. Returns the one to connect to. */
  async forward(request: ForwardRequest): Promise<number> {
    this.thread.postMessage(request);
    const [answer] = (await once(this.thread, 'message')) as [ForwardAnswer];
    if ('port' in answer) return answer.port;
    throw Object.assign(new Error(answer.error.message), { code: answer.error.code });
  }

  /**
   * To be called when the ends of all connections are closed. What is on its way is still delivered. May be called
   * twice.
   */
  close(): Promise<void> {
    return (this.closing ??= this.end());
  }

  private async end(): Promise<void> {
    const { delayMs, jitterMs } = this.delay;
    const ended = once(this.thread, 'exit');
    this.thread.postMessage('close');
    await Promise.race([ended, sleep(LAST_BYTES_MS + 4 * (delayMs + jitterMs), undefined, { ref: false })]);
    await this.thread.terminate();
  }
}
