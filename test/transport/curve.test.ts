import { curveKeyPair, Pair } from 'zeromq';
import { encodeKey, isKey } from '../../src/transport/control/curve';

/** Whether ZeroMQ takes a text for a key. */
function isTaken(text: string): boolean {
  const socket = new Pair();
  try {
    socket.curveServerKey = text;
    return true;
  } catch {
    return false;
  } finally {
    socket.close();
  }
}

const KEY = encodeKey(Buffer.alloc(32, 0xff));

test.each([
  ['a key', curveKeyPair().publicKey, true],
  ['the largest', KEY, true],
  ['the least', '0'.repeat(40), true],
  ['more than 32 bits', `${KEY.slice(0, 4)}1${KEY.slice(5)}`, false],
  ['much more than 32 bits', '#'.repeat(40), false],
  ['another character', ` ${KEY.slice(1)}`, false],
  ['too short', KEY.slice(1), false],
  ['too long', `${KEY}0`, false],
  ['nothing', '', false],
])('%s: what is a key is what ZeroMQ takes for one', (_, text, expected) => {
  expect(isKey(text)).toBe(expected);
  if (text !== '') expect(isTaken(text)).toBe(expected); // an empty one turns CURVE off
});
