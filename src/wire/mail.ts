import type * as flatbuffers from 'flatbuffers';
import type { Frame } from './generated/frame';
import { Mail as MailStruct } from './generated/mail';
import { MailStep } from './generated/mail-step';

export { MailStep };

/**
 * What a frame says of a message. A channel is all messages from one rank to another with one tag; both its ends number
 * them.
 */
export interface Mail {
  readonly step: MailStep;
  /** The rank that the frame is for: one end of the channel. */
  readonly destination: number;
  /** The rank at the other end of the channel, as the destination sees it. */
  readonly other: number;
  readonly tag: number;
  /** The number of the message within its channel, from 0. */
  readonly number: number;
  /** The length of the whole message, in a {@link MailStep.Part}; else 0. */
  readonly bytes: number;
}

/** The longest message: it comes from one memory. */
const LARGEST_BYTES = 2 ** 32;

/** Call it between `startFrame` and `endFrame`. */
export function createMail(builder: flatbuffers.Builder, mail: Mail): flatbuffers.Offset {
  const { step, destination, other, tag, number, bytes } = mail;
  return MailStruct.createMail(builder, BigInt(number), BigInt(bytes), destination, tag, other, step);
}

/** @throws RangeError if the frame is about no message, or about an impossible one. */
export function readMail(frame: Frame, byteLength: number, worldSize: number): Mail {
  const mail = frame.mail();
  if (mail === null || mail.bb_pos + MailStruct.sizeOf() > byteLength) throw new RangeError('no message');
  const [step, destination, other] = [mail.step(), mail.destination(), mail.other()];
  const [number, bytes] = [Number(mail.number()), Number(mail.bytes())];
  if (MailStep[step] === undefined || destination >= worldSize || other >= worldSize || other === destination) {
    throw new RangeError('an impossible step or rank');
  }
  if (!Number.isSafeInteger(number) || bytes > LARGEST_BYTES) throw new RangeError('an impossible number');
  return { step, destination, other, tag: mail.tag(), number, bytes };
}
