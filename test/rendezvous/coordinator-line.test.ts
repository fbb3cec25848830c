import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { CoordinatorLine } from '../../src/rendezvous/coordinator-line';
import { secureRun } from '../../src/rendezvous/run-security';
import { GradringError } from '../../src/errors';
import { failureOf } from '../support/rings';
import { VISITS } from '../support/strangers';

test('where another protocol is spoken, a message that nobody takes is an error in time', async () => {
  const [withoutEncryption] = VISITS[6]!;
  const master = createServer(socket => socket.on('error', () => undefined).write(withoutEncryption));
  master.listen(0, '127.0.0.1');
  await once(master, 'listening');
  const { port } = master.address() as AddressInfo;
  const security = secureRun('ab'.repeat(32));
  const nobody = (endpoint: string) => new GradringError('ERR_RENDEZVOUS_TIMEOUT', `nobody at ${endpoint}`);
  const connection = once(master, 'connection') as Promise<[Socket]>;
  const line = new CoordinatorLine({ masterAddr: '127.0.0.1', masterPort: port, security }, 200, nobody);
  const [socket] = await connection;
  await once(socket.resume(), 'close'); // ZeroMQ has given it up
  const tell = async () => {
    for (;;) await line.send({ kind: 'leave', rank: 1 });
  };
  expect(await failureOf(tell())).toMatchObject({
    code: 'ERR_RENDEZVOUS_TIMEOUT',
    message: expect.any(String) as string,
  });
  line.close();
  security.gate.closeAuthenticator();
  master.close();
});
