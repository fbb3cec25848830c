import { createPrivateKey, createPublicKey, hkdfSync } from 'node:crypto';
import { curveKeyPair } from 'zeromq';
import { isLoopback, withoutBrackets } from '../environment/network';
import type { Encryption } from '../environment/rank-options';
import { encodeKey, type KeyPair } from '../transport/control/curve';
import { Gate } from '../transport/control/gate';

/** The options that decide whether ranks must prove that they belong to the run. */
export interface SecurityOptions {
  readonly runToken: string | undefined;
  readonly encryption: Encryption;
}

/** The keys that prove that a rank belongs to this run, and that the others do. */
export interface RunSecurity {
  /** The keys of the coordinator, and of all that come to it. A process that knows the run token knows both. */
  readonly host: KeyPair;
  readonly guest: KeyPair;
  /** The key of this rank's links, new for this ring. The others get the public key at the rendezvous. */
  readonly link: KeyPair;
  readonly gate: Gate;
}

/** {@link secureRun}, or undefined if ranks need not prove anything. */
export function securityOf({ runToken, encryption }: SecurityOptions): RunSecurity | undefined {
  return runToken === undefined || encryption === 'off' ? undefined : secureRun(runToken);
}

export function secureRun(runToken: string): RunSecurity {
  return {
    host: derivedKeys(runToken, 'gradring rendezvous host'),
    guest: derivedKeys(runToken, 'gradring rendezvous guest'),
    link: curveKeyPair(),
    gate: Gate.open(),
  };
}

/** Whether the link at an endpoint is encrypted. Both its ends get the same answer. */
export function isEncrypted(endpoint: string, encryption: Encryption): boolean {
  if (encryption === 'off' || !endpoint.startsWith('tcp://')) return false;
  return encryption === 'on' || !isLoopback(hostOf(endpoint));
}

/** The address in an endpoint of TCP. */
export function hostOf(endpoint: string): string {
  return withoutBrackets(endpoint.slice('tcp://'.length, endpoint.lastIndexOf(':')));
}

/** The DER of an X25519 secret key, up to its 32 bytes (RFC 8410). */
const PKCS8_X25519 = Buffer.from('302e020100300506032b656e04220420', 'hex');

function derivedKeys(runToken: string, purpose: string): KeyPair {
  const secret = Buffer.from(hkdfSync('sha256', Buffer.from(runToken, 'hex'), '', purpose, 32));
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_X25519, secret]), format: 'der', type: 'pkcs8' });
  const publicKey = createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32);
  return { publicKey: encodeKey(publicKey), secretKey: encodeKey(secret) };
}
