import { decodeRendezvousMessage, encodeRendezvousMessage, type RendezvousMessage } from '../wire/rendezvous-message';

/**
 * Encodes a message of the rendezvous as base64 text, because ZeroMQ copies text. It releases a buffer, in contrast,
 * on the thread that sent it, once it is delivered or dropped. If that thread has ended by then, it writes to freed
 * memory.
 */
export function toText(message: RendezvousMessage): string {
  return Buffer.from(encodeRendezvousMessage(message)).toString('base64');
}

/**
 * Decodes a received message.
 *
 * @throws GradringError `ERR_PROTOCOL` for bytes that are not such a message.
 */
export function fromText(bytes: Buffer): RendezvousMessage {
  return decodeRendezvousMessage(Buffer.from(bytes.toString('latin1'), 'base64'));
}
