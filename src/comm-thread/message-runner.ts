import { ELEMENT_BYTES } from '../collectives/element-type';
import { GradringError } from '../errors';
import { Patience } from '../patience';
import type { MailedArray, Transport } from '../transport/transport';
import { WakingTimer } from '../waking-time';
import { protocolError } from '../wire/frame';
import { failCall, type Place, requireUsable } from './failed-call';
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
    return this.inTurn({ name: 'send', other: to, tag }, () => this.transport.messenger.send(to, tag, array));
  }

  receive(from: number, tag: number): Promise<ReceivedArray> {
    return this.inTurn({ name: 'receive', other: from, tag }, async () => {
      const { elementType, bytes } = await this.transport.messenger.receive(from, tag);
      const isWhole = elementType !== 'none' && bytes.length % ELEMENT_BYTES[elementType] === 0;
      if (!isWhole) throw protocolError(`of rank ${from} holds no whole elements of ${elementType}`, { rank: from });
      return { elementType, bytes };
    });
  }

  private async inTurn<T>(call: MessageCall, run: () => Promise<T>): Promise<T> {
    requireUsable(this.transport, () => placeOf(call).where);
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

  /** Runs a call; reports it if it waits for a long time, and ends the ring at the timeout. */
  private async watched<T>(call: MessageCall, run: () => Promise<T>): Promise<T> {
    const { name, other, tag } = call;
    const { rank } = this.transport;
    const { timeoutMs, stallMs } = this.options;
    const why = `to ${name} ${CALLS[name].preposition} rank ${other} (tag ${tag}): ${CALLS[name].lack}.`;
    const timeout = new WakingTimer(() => {
      const words = `Rank ${rank} waited ${timeoutMs} ms ${why}`;
      void this.transport.fail(new GradringError('ERR_TIMEOUT', words, { rank: other }));
    }, timeoutMs);
    const patience = new Patience(stallMs, s => this.say(`gradring: rank ${rank} has waited ${s} s ${why}`));
    patience.begin();
    try {
      return await run();
    } catch (error) {
      throw await failCall(this.transport, error, placeOf(call));
    } finally {
      timeout.cancel();
      patience.end();
    }
  }
}

/** For the words about a call that waits: what it probably waits for. */
const CALLS = {
  send: { preposition: 'to', lack: 'it has not called receive, or has not taken all of it yet' },
  receive: { preposition: 'from', lack: 'it has not called send, or its array has not come yet' },
} as const;

interface MessageCall {
  readonly name: keyof typeof CALLS;
  readonly other: number;
  readonly tag: number;
}

function placeOf({ name, other, tag }: MessageCall): Place {
  const operation = `${name}(rank ${other}, tag ${tag})`;
  return { where: { operation }, words: operation };
}
