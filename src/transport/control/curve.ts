import type { Context } from 'zeromq';

/** A CURVE key pair in the form that ZeroMQ takes: each key is 40 characters of Z85. */
export interface KeyPair {
  readonly publicKey: string;
  readonly secretKey: string;
}

/** Socket options of the bound end of a connection, which decides who may connect. Made by {@link Gate.serve}. */
export interface CurveServer {
  readonly context: Context;
  readonly curveServer: true;
  readonly curveSecretKey: string;
  readonly zapDomain: string;
  readonly zapEnforceDomain: true;
}

/** Socket options of the connecting end, which talks only to the holder of the server's secret key. */
export interface CurveClient {
  readonly curvePublicKey: string;
  readonly curveSecretKey: string;
  readonly curveServerKey: string;
}

export function curveClient({ publicKey, secretKey }: KeyPair, serverKey: string): CurveClient {
  return { curvePublicKey: publicKey, curveSecretKey: secretKey, curveServerKey: serverKey };
}

const Z85 = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#';

/** The text form of a key of 32 bytes (ZeroMQ RFC 32). */
export function encodeKey(bytes: Buffer): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 4) {
    const word = bytes.readUInt32BE(at);
    for (const weight of [85 ** 4, 85 ** 3, 85 ** 2, 85, 1]) text += Z85[Math.floor(word / weight) % 85];
  }
  return text;
}

/**
 * Whether a text from a peer is a key. ZeroMQ throws if it is not, or if five characters stand for more than 32 bits.
 */
export function isKey(text: string): boolean {
  return text.length === 40 && (text.match(/.{5}/gs) ?? []).every(word => wordOf(word) <= 0xffffffff);
}

/** The number that characters of Z85 stand for. Infinity if a character is not in Z85. */
function wordOf(characters: string): number {
  let word = 0;
  for (const character of characters) {
    const digit = Z85.indexOf(character);
    word = digit === -1 ? Infinity : word * 85 + digit;
  }
  return word;
}
