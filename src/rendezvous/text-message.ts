import { decodeRendezvousMessage, encodeRendezvousMessage, type RendezvousMessage } from '../wire/rendezvous-message';

/**
 * Encodes a message of the rendezvous as base64 text, because ZeroMQ copies text. It gives a buffer back to the thread
 * that sent it when the lingering socket has delivered or dropped it. If that thread has ended by then, but the process
 * has not, that writes to freed memory.
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
