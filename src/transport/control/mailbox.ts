import { GradringError } from '../../errors';
import { copyBytes, copyOf, releaseMemory } from '../../memory/buffers';
import { FrameKind, type MailHeader, MailStep, protocolError } from '../../wire/frame';
import { deferred, type Deferred } from '../deferred';
import { leftBefore, neighbourOf, opposite, rankLost, type Side } from '../ring-place';
import type { RingState } from '../ring-state';
import type { MailedArray, Messenger } from '../transport';

/** The length of all parts of a message but the last. */
const PART_BYTES = 1024 * 1024;

/** How many parts a sender is ahead of what the receiver has taken. A rank between may have to hold so many. */
const PARTS_AHEAD = 4;

/** How often an end that waits says so again. */
const REPEAT_MS = 1_000;

/** Sends a frame to the other end of a channel, behind all that was sent before. Settles when the link has taken it. */
type Post = (step: MailStep, said: Partial<MailHeader>, body?: Uint8Array) => Promise<void>;

/** One end of a channel. It has at most one message under way. */
abstract class End {
  /** The number of the message that is under way, or comes next. */
  protected number = 0;
  /** Resolved when something has happened that this end may wait for. Undefined if it does not wait. */
  private change: Deferred<void> | undefined;
  private failure: Error | undefined;
  /** Whether a frame of {@link say} is not sent yet. */
  private isSaying = false;

  constructor(protected readonly post: Post) {}

  /** Whether this end waits, in the message of that number. */
  awaits(number: number): boolean {
    return this.change !== undefined && number === this.number;
  }

  fail(error: Error): void {
    this.failure = error;
    this.changed();
  }

  /** Waits until a condition holds. Says so to the other end, now and every second. */
  protected async until(isSo: () => boolean, step: MailStep): Promise<void> {
    if (isSo()) return;
    const say = () => {
      if (!this.isSaying) this.say(step, {}); // a link that takes nothing gets no queue of these
    };
    const repeat = setInterval(say, REPEAT_MS);
    try {
      say();
      while (!isSo()) {
        if (this.failure !== undefined) throw this.failure;
        this.change = deferred();
        await this.change.promise;
      }
    } finally {
      this.change = undefined;
      clearInterval(repeat);
    }
  }

  /** Sends a frame without a body. Nobody waits until it is sent. */
  protected say(step: MailStep, said: Partial<MailHeader>): void {
    this.isSaying = true;
    this.post(step, { number: this.number, ...said })
      .catch((error: Error) => this.fail(error))
      .finally(() => (this.isSaying = false));
  }

  protected changed(): void {
    this.change?.resolve();
  }
}

class Sender extends End {
  /** How many messages the receiver has asked for. */
  private requested = 0;
  /** How many parts of this message were sent, and how many the receiver has taken. */
  private sent = 0;
  private taken = 0;

  async send({ elementType, bytes }: MailedArray): Promise<void> {
    const { number } = this;
    const parts = partsOf(bytes.length);
    this.sent = this.taken = 0;
    await this.until(() => this.requested > number, MailStep.Offer);
    while (this.sent < parts) {
      await this.until(() => this.sent < this.taken + PARTS_AHEAD, MailStep.Offer);
      const part = this.sent++;
      const body = copyOf(bytes.subarray(part * PART_BYTES, (part + 1) * PART_BYTES));
      await this.post(MailStep.Part, { number, part, elementType, bytes: bytes.length }, body);
    }
    this.number += 1;
  }

  /** The receiver may be one message ahead: it has all of this one before the last part counts as sent here. */
  hearRequest(number: number): void {
    if (number > this.number + 1) throw protocolError('asks for a message before the one that comes next');
    this.requested = Math.max(this.requested, number + 1);
    this.changed();
  }

  hearTaken(number: number, part: number): void {
    if (number < this.number) return;
    if (number > this.number || part >= this.sent) throw protocolError('says that a part was taken which was not sent');
    this.taken = part + 1;
    this.changed();
  }
}

class Receiver extends End {
  private isReceiving = false;
  /** The message, as soon as its first part has come. */
  private array: MailedArray | undefined;
  /** How many of its parts have come. */
  private parts = 0;

  async receive(): Promise<MailedArray> {
    this.isReceiving = true;
    try {
      await this.until(
        () => this.array !== undefined && this.parts === partsOf(this.array.bytes.length),
        MailStep.Request,
      );
      return this.array!;
    } finally {
      this.isReceiving = false;
      this.array = undefined;
      this.parts = 0;
      this.number += 1;
    }
  }

  hearPart({ number, part, elementType, bytes }: MailHeader, body: Uint8Array): void {
    if (!this.isReceiving || number !== this.number) throw protocolError('is part of a message that was not requested');
    this.array ??= { elementType, bytes: memoryFor(bytes) };
    const { array } = this;
    const isSame = elementType === array.elementType && bytes === array.bytes.length;
    const place = array.bytes.subarray(part * PART_BYTES, (part + 1) * PART_BYTES);
    if (!isSame || part !== this.parts || body.length !== place.length) {
      throw protocolError(`is not part ${this.parts} of the message that has begun`);
    }
    copyBytes(place, body);
    releaseMemory(body);
    this.parts += 1;
    if (part + PARTS_AHEAD < partsOf(bytes)) this.say(MailStep.Taken, { part });
    this.changed();
  }
}

/**
 * Carries arrays from any rank to any other, over the links, the shorter way round the ring. The comm threads of the
 * ranks between forward the frames, whatever their main threads do.
 *
 * The receiver asks for each message, so nothing arrives that has no place. An end that waits says so every second. If
 * that meets the gap of a rank which has left the ring, the neighbour of the gap sends an answer back. The answer is
 * behind everything that the rank had still forwarded. So an end that still waits then fails the ring.
 */
export class Mailbox implements Messenger {
  /** By rank and tag. */
  private readonly senders = new Map<string, Sender>();
  private readonly receivers = new Map<string, Receiver>();
  /** The frames to each side leave one after the other. */
  private readonly lastSent: Record<Side, Promise<void>> = { left: Promise.resolve(), right: Promise.resolve() };

  constructor(private readonly ring: RingState) {}

  send(to: number, tag: number, array: MailedArray): Promise<void> {
    return this.senderTo(to, tag).send(array);
  }

  receive(from: number, tag: number): Promise<MailedArray> {
    return this.receiverFrom(from, tag).receive();
  }

  /**
   * A frame has arrived from that side.
   *
   * @param body Belongs to this object.
   */
  take(side: Side, header: MailHeader, headerBytes: Uint8Array, body: Uint8Array): void {
    if (this.ring.failed) return;
    if (body.length > (header.step === MailStep.Part ? PART_BYTES : 0)) throw protocolError('has too long a body');
    if (header.destination !== this.ring.place.rank) return this.forward(opposite(side), header, headerBytes, body);
    try {
      this.hear(side, header, body);
    } catch (error) {
      const known = error as GradringError;
      if (known.code === 'ERR_OUT_OF_MEMORY') void this.ring.fail(known);
      else this.ring.failBroken(side, known, header.origin);
    }
  }

  /** Settles when all frames so far have left, or cannot leave. */
  async sent(): Promise<void> {
    await Promise.all(Object.values(this.lastSent));
  }

  /** Fails the calls that wait, and later ones. */
  fail(error: Error): void {
    for (const end of [...this.senders.values(), ...this.receivers.values()]) end.fail(error);
  }

  private hear(side: Side, header: MailHeader, body: Uint8Array): void {
    const { origin, other, tag, number, part } = header;
    const isAnswer = header.step === MailStep.NoReceiver || header.step === MailStep.NoSender;
    if (!isAnswer && origin !== other) throw protocolError(`of rank ${origin} claims to be of rank ${other}`);
    switch (header.step) {
      case MailStep.Offer:
        return; // this rank asks for what it wants
      case MailStep.Request:
        return this.senderTo(other, tag).hearRequest(number);
      case MailStep.Taken:
        return required(this.senders, other, tag).hearTaken(number, part);
      case MailStep.Part:
        return required(this.receivers, other, tag).hearPart(header, body);
      case MailStep.NoReceiver:
      case MailStep.NoSender: {
        const ends = header.step === MailStep.NoReceiver ? this.senders : this.receivers;
        if (ends.get(keyOf(other, tag))?.awaits(number))
          void this.failWithout(neighbourOf(this.ring.place, origin, side));
      }
    }
  }

  /** This rank needs one that has left: the ring fails. */
  private failWithout(rank: number): Promise<GradringError> {
    const { place } = this.ring;
    return this.ring.fail(rankLost(place, rank, leftBefore(`rank ${place.rank}`)));
  }

  private senderTo(other: number, tag: number): Sender {
    const { rank, worldSize } = this.ring.place;
    const side = sideOf(worldSize, rank, other);
    return endOf(this.senders, other, tag, () => new Sender(this.postTo(side, other, tag)));
  }

  /** What the receiver says goes back the way that the parts come. */
  private receiverFrom(other: number, tag: number): Receiver {
    const { rank, worldSize } = this.ring.place;
    const side = opposite(sideOf(worldSize, other, rank));
    return endOf(this.receivers, other, tag, () => new Receiver(this.postTo(side, other, tag)));
  }

  private postTo(side: Side, other: number, tag: number): Post {
    return (step, said, body) => {
      const { rank } = this.ring.place;
      const header = { ...NOTHING, step, origin: rank, destination: other, other: rank, tag, ...said };
      return this.deliver(side, header, this.ring.encode(header), body);
    };
  }

  /** For another rank, which learns by itself if the ring fails. */
  private forward(side: Side, header: MailHeader, headerBytes: Uint8Array, body?: Uint8Array): void {
    this.deliver(side, header, headerBytes, body).catch(() => undefined);
  }

  private deliver(side: Side, header: MailHeader, headerBytes: Uint8Array, body: Uint8Array = EMPTY): Promise<void> {
    const { ring } = this;
    const sent = this.lastSent[side].then(async () => {
      const bytes = headerBytes.length + body.length;
      if (!ring.failed && !ring.departed.has(side)) await ring.pacer?.send(bytes);
      if (ring.failing !== undefined) throw await ring.failing;
      if (ring.departed.has(side)) return this.answer(side, header);
      ring.observer.count('bytesSent', bytes);
      try {
        await ring.ends[side].send(body.length === 0 ? [headerBytes] : [headerBytes, body]);
      } catch {
        if (ring.departed.has(side)) return this.answer(side, header);
        throw await ring.failUnsent(side);
      }
    });
    this.lastSent[side] = sent.catch(() => undefined);
    return sent;
  }

  /** The neighbour on that side has left. Tells the rank that waits, if one does. */
  private async answer(side: Side, { step, origin, destination, tag, number }: MailHeader): Promise<void> {
    const { place } = this.ring;
    const { rank } = place;
    if (step === MailStep.Part && origin === rank) throw await this.failWithout(neighbourOf(place, rank, side));
    const gone = ANSWERS.get(step);
    if (gone === undefined) return;
    const header = { ...NOTHING, step: gone, origin: rank, destination: origin, other: destination, tag, number };
    if (origin === rank) this.hear(side, header, EMPTY);
    else this.forward(opposite(side), header, this.ring.encode(header));
  }
}

const NOTHING = { kind: FrameKind.Mail, elementType: 'none', number: 0, part: 0, bytes: 0 } as const;

const EMPTY = new Uint8Array(0);

/** What a rank is told whose message cannot go on. */
const ANSWERS: ReadonlyMap<MailStep, MailStep> = new Map([
  [MailStep.Offer, MailStep.NoReceiver],
  [MailStep.Request, MailStep.NoSender],
]);

/** On which side of a rank the shorter way to another one begins. */
function sideOf(worldSize: number, from: number, to: number): Side {
  const distance = (to - from + worldSize) % worldSize;
  return 2 * distance <= worldSize ? 'right' : 'left';
}

/** @throws GradringError `ERR_OUT_OF_MEMORY` */
function memoryFor(bytes: number): Uint8Array {
  try {
    return new Uint8Array(bytes);
  } catch (cause) {
    throw new GradringError('ERR_OUT_OF_MEMORY', `There is no memory for a message of ${bytes} bytes.`, {}, { cause });
  }
}

/** An empty message has one part, too. */
function partsOf(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / PART_BYTES));
}

function keyOf(other: number, tag: number): string {
  return `${other} ${tag}`;
}

function endOf<T>(ends: Map<string, T>, other: number, tag: number, make: () => T): T {
  const key = keyOf(other, tag);
  const end = ends.get(key) ?? make();
  ends.set(key, end);
  return end;
}

/** @throws GradringError `ERR_PROTOCOL` if this rank has no message with that tag. */
function required<T>(ends: ReadonlyMap<string, T>, other: number, tag: number): T {
  const end = ends.get(keyOf(other, tag));
  if (end === undefined) throw protocolError('is about a message that nobody sends or receives');
  return end;
}
