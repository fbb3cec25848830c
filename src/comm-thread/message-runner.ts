import { ELEMENT_BYTES } from '../collectives/element-type';
import { GradringError } from '../errors';
import type { MailedArray, Transport } from '../transport/transport';
import { wakingNow, WakingTimer } from '../waking-time';
import { protocolError } from '../wire/frame';
import { failCall } from './failed-call';
import type { StallOptions } from './stall-watch';
import type { ReceivedArray } from './thread-protocol';

/**
 * Sends messages to other ranks and receives them. Those of one rank and tag run one after the other. All others run at
 * the same time, beside the collectives. An error in one of them ends the ring, because the other rank waits.
 */
export class MessageRunner {
  /** The last call for each rank and tag. It never fails. */
  private readonly last = new Map<string, Promise<void>>();

  /** @param say Prints a line for the user when a call waits for a long time. */
  constructor(
    private readonly transport: Transport,
    private readonly options: StallOptions,
    private readonly say: (line: string) => void,
  ) {}

  send(to: number, tag: number, array: MailedArray): Promise<void> {
    const call = {
      name: 'send',
      verb: 'send to',
      lack: 'it has not called receive, or has not taken all of it yet',
      other: to,
      tag,
    };
    return this.inTurn(call, () => this.transport.messenger.send(to, tag, array));
  }

  receive(from: number, tag: number): Promise<ReceivedArray> {
    const lack = 'it has not called send, or its array has not come yet';
    const call = { name: 'receive', verb: 'receive from', lack, other: from, tag };
    return this.inTurn(call, async () => {
      const { elementType, bytes } = await this.transport.messenger.receive(from, tag);
      const isWhole = elementType !== 'none' && bytes.length % ELEMENT_BYTES[elementType] === 0;
      if (!isWhole) throw protocolError(`of rank ${from} holds no whole elements of ${elementType}`, { rank: from });
      return { elementType, bytes };
    });
  }

  private inTurn<T>(call: MessageCall, run: () => Promise<T>): Promise<T> {
    const key = `${call.name} ${call.other} ${call.tag}`;
    const done = (this.last.get(key) ?? Promise.resolve()).then(() => this.watched(call, run));
    const settled: Promise<void> = done.then(
      () => this.forget(key, settled),
      () => this.forget(key, settled),
    );
    this.last.set(key, settled);
    return done;
  }

  private forget(key: string, settled: Promise<void>): void {
    if (this.last.get(key) === settled) this.last.delete(key);
  }

  private async watched<T>(call: MessageCall, run: () => Promise<T>): Promise<T> {
    const stop = this.watch(call);
    try {
      return await run();
    } catch (error) {
      const operation = `${call.name}(rank ${call.other}, tag ${call.tag})`;
      throw await failCall(this.transport, error, { operation });
    } finally {
      stop();
    }
  }

  /** Reports a call that waits for a long time, and ends it at the timeout. Returns what ends that. */
  private watch({ verb, lack, other, tag }: MessageCall): () => void {
    const { rank } = this.transport;
    const { timeoutMs, stallMs } = this.options;
    const beganAt = wakingNow();
    const why = `to ${verb} rank ${other} (tag ${tag}): ${lack}.`;
    const timeout = new WakingTimer(() => {
      const words = `Rank ${rank} waited ${timeoutMs} ms ${why}`;
      void this.transport.fail(new GradringError('ERR_TIMEOUT', words, { rank: other }));
    }, timeoutMs);
    let stall: WakingTimer | undefined;
    const reportAfter = (ms: number) => {
      stall = new WakingTimer(() => {
        this.say(`gradring: rank ${rank} has waited ${Math.round((wakingNow() - beganAt) / 1000)} s ${why}`);
        reportAfter(2 * ms);
      }, ms);
    };
    if (stallMs > 0) reportAfter(stallMs);
    return () => {
      timeout.cancel();
      stall?.cancel();
    };
  }
}

interface MessageCall {
  readonly name: string;
  /** What the rank does; the number of the other rank follows. */
  readonly verb: string;
  /** What the call probably waits for. */
  readonly lack: string;
  readonly other: number;
  readonly tag: number;
}
