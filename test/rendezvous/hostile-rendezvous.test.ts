import { randomBytes } from 'node:crypto';
import { Router } from 'zeromq';
import { Rendezvous } from '../../src/rendezvous/rendezvous';
import { endpointOf } from '../../src/rendezvous/rendezvous-options';
import { securityOf } from '../../src/rendezvous/run-security';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { encodeRendezvousMessage, type RendezvousMessage } from '../../src/wire/rendezvous-message';
import { failureOf, freePort } from '../support/rings';

afterAll(closeAllSockets);

const textOf = (message: object): string => encodeRendezvousMessage(message as RendezvousMessage);

const ROSTER = { kind: 'roster', hostIds: ['a', 'b'], publicKeys: ['', ''], members: [0, 1], generation: 0 };

/** What rank 1 of two raises if that is what rank 0, or the launcher, answers. */
async function answeredWith(parts: string[], { secured = false } = {}) {
  const masterPort = await freePort();
  const security = securityOf({ encryption: 'auto', runToken: secured ? randomBytes(32).toString('hex') : undefined });
  const socket = new Router({
    linger: 0,
    ...(security && security.gate.serve(security.host, security.guest.publicKey)),
  });
  socket.bindSync(endpointOf('127.0.0.1', masterPort));
  const answering = socket.receive().then(([routing]) => socket.send([routing!, ...parts]));
  const place = { masterAddr: '127.0.0.1', masterPort, security, elastic: undefined, agreed: [] };
  const run = { rank: 1, worldSize: 2, runId: '', hostId: '', timeoutMs: 20_000 } as const;
  const meeting = Rendezvous.meet({ ...place, ...run, stallMs: 0, say: () => undefined });
  const { code, message, stack } = await failureOf(meeting);
  await answering;
  socket.close();
  security?.gate.close();
  return { code, message: message.replace(String(masterPort), 'PORT'), stack };
}

test.each<[string, string[], string]>([
  ['something else', ['GET / HTTP/1.1'], 'A frame holds no valid rendezvous message'],
  ['two parts', [textOf(ROSTER), textOf(ROSTER)], 'A frame comes in 2 parts'],
  [
    'an unknown error code',
    [textOf({ kind: 'refuse', code: 'ERR_\x1b[31m', message: '' })],
    'A frame holds no valid rendezvous message',
  ],
  [
    'a host that moves the cursor',
    [textOf({ ...ROSTER, hostIds: ['a', '\x1b[2J'] })],
    'A frame holds no valid rendezvous message',
  ],
  [
    'a ring without this rank',
    [textOf({ ...ROSTER, members: [0, 2] })],
    "it answered with 'roster', which was not expected",
  ],
  [
    'a ring of too many',
    [textOf({ ...ROSTER, hostIds: ['a', 'b', 'c'], publicKeys: ['', '', ''], members: [0, 1, 2] })],
    "it answered with 'roster', which was not expected",
  ],
])('%s is no answer, and the rendezvous is named', async (_, parts, words) => {
  const { code, message } = await answeredWith(parts);
  expect({ code, message }).toEqual({
    code: 'ERR_PROTOCOL',
    message: `The rendezvous at tcp://127.0.0.1:PORT broke the protocol: ${words}.`,
  });
});

test('a key that is none is no answer', async () => {
  const roster = { ...ROSTER, publicKeys: ['#'.repeat(40), '0'.repeat(40)] };
  expect(await answeredWith([textOf(roster)], { secured: true })).toMatchObject({
    code: 'ERR_PROTOCOL',
    message: expect.stringMatching("it answered with 'roster', which was not expected") as string,
  });
});

test('a refusal keeps its words, but not what a terminal would act on, nor 2 MB of them', async () => {
  const words = `Rank 1 is in run '\x1b]0;x\x07\u202e'.\nUse another.${'x'.repeat(2e6)}`;
  const { code, message, stack } = await answeredWith([
    textOf({ kind: 'refuse', code: 'ERR_RENDEZVOUS_REFUSED', message: words }),
  ]);
  expect(code).toBe('ERR_RENDEZVOUS_REFUSED');
  expect(message.startsWith("Rank 1 is in run '\\u{1b}]0;x\\u{7}\\u{202e}'.\nUse another.xxx")).toBe(true);
  expect(message.length).toBeLessThanOrEqual(16_000);
  expect(stack).not.toContain('\x1b');
});
