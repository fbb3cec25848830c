import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { Pair } from 'zeromq';
import { GradringError } from '../../src/errors';
import { Link, portOf } from '../../src/transport/control/link';
import { until } from '../support/rings';
import { needs, testWhere } from '../support/test-where';

const OPTIONS = { heartbeatTimeoutMs: 10_000 };

test('what is said after an interruption follows the send that waited; those behind it are not sent', async () => {
  const { link: receiver, endpoint } = Link.listen('tcp://127.0.0.1:*', OPTIONS);
  // Stands between, and passes nothing on before it is told to.
  const between = createServer().listen(0, '127.0.0.1');
  await once(between, 'listening');
  const sender = Link.connect(`tcp://127.0.0.1:${(between.address() as AddressInfo).port}`, OPTIONS);
  const [incoming] = (await once(between, 'connection')) as [Socket];
  const heard: string[] = [];
  receiver.start({ onMessage: ([first]) => void heard.push(String(first)), onLost: () => undefined });
  sender.start({ onMessage: () => undefined, onLost: () => undefined });

  const body = Buffer.alloc(64 * 1024);
  const sends = Array.from({ length: 1_000 }, (_, i) =>
    sender.send([Buffer.from(String(i)), body]).then(
      () => 'taken',
      (error: GradringError) => error.code,
    ),
  );
  await turn(); // what ZeroMQ has room for it takes at once
  sender.interrupt(new GradringError('ERR_TIMEOUT', 'The ring has failed.'));
  const outcomes = await Promise.all(sends);
  const taken = outcomes.filter(outcome => outcome === 'taken').length;
  expect(taken).toBeGreaterThan(0);
  expect(taken).toBeLessThan(900); // else nothing waited
  expect(outcomes).toEqual([
    ...Array<string>(taken).fill('taken'),
    ...Array<string>(1_000 - taken).fill('ERR_TIMEOUT'),
  ]);

  const said = sender.send([Buffer.from('abort')]);
  const outgoing = connect(Number(endpoint.split(':').at(-1)), '127.0.0.1');
  incoming.pipe(outgoing).pipe(incoming);
  await said;
  await until(() => heard.includes('abort'));
  expect(heard).toEqual([...Array.from({ length: taken + 1 }, (_, i) => String(i)), 'abort']);

  await Promise.all([sender.close(), receiver.close()]);
  between.close();
  await expect(sender.send([Buffer.from('late')])).rejects.toMatchObject({ code: 'ERR_CLOSED' });
});

test.each(['tcp://127.0.0.1:*', 'ipc:///tmp/gradring-link-test-*'])(
  'a peer that was gone before it could be reached is lost: %s',
  async address => {
    const { link, endpoint } = Link.listen(address.replace(/-\*$/, `-${process.pid}`), OPTIONS);
    await link.close();
    const late = Link.connect(endpoint, OPTIONS);
    await new Promise<void>(resolve => late.start({ onMessage: () => undefined, onLost: resolve }));
    await late.close();
  },
);

test.each([true, false])('whether a peer that is lost was silent: %s', async isSilent => {
  const options = { heartbeatTimeoutMs: 2_000 };
  const { link: bound, endpoint } = Link.listen('tcp://127.0.0.1:*', options);
  const between = createServer().listen(0, '127.0.0.1');
  await once(between, 'listening');
  const connected = Link.connect(`tcp://127.0.0.1:${(between.address() as AddressInfo).port}`, options);
  const [incoming] = (await once(between, 'connection')) as [Socket];
  const outgoing = connect(Number(endpoint.split(':').at(-1)), '127.0.0.1');
  incoming.pipe(outgoing).pipe(incoming);

  const heard = { bound: false, connected: false };
  const lost = (['bound', 'connected'] as const).map(name => {
    const link = { bound, connected }[name];
    return new Promise<Link>(resolve =>
      link.start({ onMessage: () => void (heard[name] = true), onLost: () => resolve(link) }),
    );
  });
  await until(() => heard.bound && heard.connected); // the signs of life, because nobody sends anything else
  for (const socket of [incoming, outgoing]) {
    if (isSilent) socket.unpipe().pause();
    else socket.destroy();
  }
  if (isSilent) expect(await Promise.race(lost)).toBe(connected); // the only end that sends heartbeats
  for (const { silentMs } of await Promise.all(lost)) {
    if (isSilent) expect(silentMs).toBeGreaterThanOrEqual(2_000);
    else expect(silentMs).toBeUndefined();
  }
  await Promise.all([bound.close(), connected.close()]);
  for (const socket of [incoming, outgoing]) socket.destroy();
  between.close();
});

test('an unknown peer that speaks ZeroMQ, says something and leaves does not disturb the heartbeats', async () => {
  const options = { heartbeatTimeoutMs: 1_000 };
  const { link, endpoint } = Link.listen('tcp://127.0.0.1:*', options);
  let beats = 0;
  link.start({ onMessage: () => void beats++, onLost: () => undefined });
  const peer = Link.connect(endpoint, options);
  peer.start({ onMessage: () => undefined, onLost: () => undefined });
  await until(() => beats > 0);
  const stranger = new Pair({ linger: 0 });
  const { events } = stranger;
  stranger.connect(endpoint);
  for (let type = ''; type !== 'end';) {
    ({ type } = await events.receive());
    if (type !== 'handshake') continue;
    await stranger.send('let me in'); // the link has its peer, so it takes nothing from a second one
    stranger.close();
  }
  const after = beats;
  await until(() => beats > after + 8);
  await Promise.all([peer.close(), link.close()]);
});

test.each(['tcp://127.0.0.1:*', 'ipc:///tmp/gradring-link-test-*'])(
  'a bound end reads what its peer had sent, and then notices that it is gone: %s',
  async address => {
    const { link, endpoint } = Link.listen(address.replace(/-\*$/, `-${process.pid}`), OPTIONS);
    const heard: string[] = [];
    const lost = new Promise<void>(resolve =>
      link.start({ onMessage: ([first]) => void heard.push(String(first)), onLost: resolve }),
    );
    const peer = Link.connect(endpoint, OPTIONS);
    await Promise.all(['one', 'two', 'three'].map(text => peer.send([Buffer.from(text)])));
    await peer.close(60_000); // until it has delivered them
    await lost;
    expect(heard).toEqual(['one', 'two', 'three']);
    await link.close();
  },
);

testWhere(needs.linux)('when a bound end admits no more, nobody can connect, and the peer stays', async () => {
  const { link, endpoint } = Link.listen('tcp://127.0.0.1:*', OPTIONS);
  const heard: string[] = [];
  link.start({ onMessage: ([first]) => void heard.push(String(first)), onLost: () => heard.push('lost') });
  const peer = Link.connect(endpoint, OPTIONS);
  peer.start({ onMessage: () => undefined, onLost: () => undefined });
  await peer.send([Buffer.from('first')]);
  await until(() => heard.length === 1);
  const early = connect(portOf(endpoint), '127.0.0.1');
  await once(early, 'connect');
  link.admitNoMore();
  const late = connect(portOf(endpoint), '127.0.0.1').on('connect', () => heard.push('a stranger'));
  for (let i = 2; i < 100; i++) {
    await peer.send([Buffer.from('more')]);
    await until(() => heard.length === i);
  }
  expect(late.connecting).toBe(true);
  expect(heard).toEqual(['first', ...Array<string>(98).fill('more')]);
  for (const stranger of [early, late]) stranger.destroy();
  await Promise.all([peer.close(), link.close()]);
});
