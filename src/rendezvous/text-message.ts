import { decodeRendezvousMessage, encodeRendezvousMessage, type RendezvousMessage } from '../wire/rendezvous-message';

/**
 * A message of the rendezvous as it travels: base64. ZeroMQ copies text; a buffer it would give back to the thread that
 * sent it, when the socket that lingers has delivered or dropped it. If that thread has ended by then, and another of
 * the process goes on, that writes to freed memory.
 */
export function toText(message: RendezvousMessage): string {
  return Buffer.from(encodeRendezvousMessage(message)).toString('base64');
}

/**
 * The message in what came.
 *
 * @throws GradringError `ERR_PROTOCOL` for bytes that are no such message.
 */
export function fromText(bytes: Buffer): RendezvousMessage {
  return decodeRendezvousMessage(Buffer.from(bytes.toString('latin1'), 'base64'));
}
