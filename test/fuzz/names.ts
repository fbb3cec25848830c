import { isIP } from 'node:net';
import { checkRunToken } from '../../src/environment/rank-environment';
import { isLoopback } from '../../src/environment/network';
import { endpointFault } from '../../src/rendezvous/neighbour-endpoint';
import { endpointOf } from '../../src/rendezvous/rendezvous-options';
import { isEncrypted } from '../../src/rendezvous/run-security';
import { isKey } from '../../src/transport/control/curve';
import type { Target } from './fuzz';
import { demand, refusalOf } from './refusal';

const KEY = 'rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7';
const Z85 = /^[0-9a-zA-Z.\-:+=^!/*?&<>()[\]{}@%$#]{40}$/;
const TOKEN = '0123456789abcdef'.repeat(4);

/** What the first byte of an input says that the rest is. */
const KINDS: { run: (text: string) => string; seeds: string[] }[] = [
  { run: runToken, seeds: [TOKEN, TOKEN.toUpperCase(), ''] },
  { run: runKey, seeds: [KEY, '#'.repeat(40), '0'.repeat(40)] },
  {
    ...{ run: runEndpoint },
    seeds: ['tcp://127.0.0.1:40123', 'tcp://[::1]:4', 'tcp://[::ffff:127.0.0.1]:5', 'tcp://10.0.0.7:1', 'ipc:///dev/shm/a/left'],
  },
  { run: runAddress, seeds: ['localhost', '127.0.0.1', '::1', 'node-0.cluster', 'fe80::1%eth0'] },
]; // prettier-ignore

/** Texts from outside: run tokens, keys, endpoints and host names. */
export const namesTarget: Target = {
  name: 'names',
  seeds: () =>
    KINDS.flatMap(({ seeds }, kind) => {
      return seeds.map(text => ({ bytes: Buffer.concat([Buffer.of(kind), Buffer.from(text, 'latin1')]) }));
    }),
  run: bytes => {
    const { run } = KINDS[(bytes[0] ?? 0) % KINDS.length];
    return { outcome: run(Buffer.from(bytes.subarray(1)).toString('latin1')) };
  },
};

/** What is said of a wrong token, whichever. */
let wrongToken: string | undefined;

function runToken(text: string): string {
  try {
    const token = checkRunToken(text.trim(), 'the file');
    demand(token === text.trim().toLowerCase() && /^[0-9a-f]{64}$/.test(token), 'The token is none.');
    return 'accepted: a token';
  } catch (error) {
    const words = refusalOf(error, 'ERR_INVALID_ENVIRONMENT');
    wrongToken ??= words;
    demand(words === wrongToken, 'The token is told.');
    return words;
  }
}

/** ZeroMQ takes no key of which five characters stand for more than 32 bits. */
function runKey(text: string): string {
  const isOne = Z85.test(text) && isDecodable(text);
  demand(isKey(text) === isOne, isOne ? 'A key is refused.' : 'What is no key is taken for one.');
  return isOne ? 'accepted: a key' : 'no key';
}

const DIGITS = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#';

function isDecodable(text: string): boolean {
  const words = text.match(/.{5}/g)!;
  return words.every(word => [...word].reduce((sum, digit) => sum * 85 + DIGITS.indexOf(digit), 0) <= 0xffffffff);
}

function runEndpoint(text: string): string {
  for (const encryption of ['on', 'off', 'auto'] as const) {
    const encrypted = isEncrypted(text, encryption);
    if (encryption !== 'auto') demand(encrypted === (encryption === 'on' && text.startsWith('tcp://')), 'It is not as said.');
    else if (text.startsWith('tcp://') && !encrypted) demandLoopback(/^tcp:\/\/\[?(.*?)\]?:[^:]*$/s.exec(text)?.[1] ?? text);
  }
  if (endpointFault(text, { bySocket: true, byLoopback: true }) === undefined) {
    const [, address = '', port] = /^tcp:\/\/\[?([^\]]*?)\]?:(\d+)$/.exec(text) ?? [];
    demand(isIP(address) !== 0 && Number(port) > 0 && Number(port) < 65_536, `${JSON.stringify(text)} is taken for an endpoint.`);
    return 'accepted: where a rank may listen';
  }
  return isEncrypted(text, 'auto') ? 'accepted: an endpoint that is encrypted' : 'accepted: an endpoint that is not';
} // prettier-ignore

function runAddress(text: string): string {
  const endpoint = endpointOf(text, 29_500);
  demand(endpoint.startsWith('tcp://') && endpoint.endsWith(':29500'), 'The endpoint is none.');
  if (!isLoopback(text)) return 'accepted: an address elsewhere';
  demandLoopback(text);
  return 'accepted: an address of this host';
}

/** What is told to be here must be an address of this host's loopback, not a name that somebody else may answer to. */
function demandLoopback(text: string): void {
  const address = text.replace(/^::ffff:(?=127)/i, '');
  const isHere = text === 'localhost' || text === '::1' || (isIP(address) === 4 && address.startsWith('127.'));
  demand(isHere, `${JSON.stringify(text)} is taken for this host.`);
}
