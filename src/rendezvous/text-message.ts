import { protocolError } from '../wire/frame';
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
 * The message that was received as these parts.
 *
 * @throws GradringError `ERR_PROTOCOL` if they are not one message.
 */
export function messageIn(parts: readonly Buffer[]): RendezvousMessage {
  if (parts.length !== 1) throw protocolError(`comes in ${parts.length} parts`);
  return decodeRendezvousMessage(Buffer.from(parts[0]!.toString('latin1'), 'base64'));
}
