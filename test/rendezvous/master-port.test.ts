import { readFileSync } from 'node:fs';
import net from 'node:net';
import { Router } from 'zeromq';
import { findFreePort } from '../../src/rendezvous/master-port';
import { needs, testWhere } from '../support/test-where';

const TIME_WAIT = '06';

/** The states of the connections whose own side has the port, as Linux writes them. */
const statesAt = (port: number): string[] =>
  readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map(line => line.trim().split(/\s+/))
    .filter(columns => columns[1]?.endsWith(`:${port.toString(16).toUpperCase().padStart(4, '0')}`))
    .map(columns => columns[3]!);

testWhere(needs.linux)(
  'a free port stays reserved for who names it: it lies in TIME_WAIT, and ZeroMQ can bind it',
  async () => {
    const port = await findFreePort('127.0.0.1');
    expect(statesAt(port)).toEqual([TIME_WAIT]);
    const rank0 = new Router();
    rank0.bindSync(`tcp://127.0.0.1:${port}`);
    rank0.close();
  },
);

test('a stranger that comes to the port holds nothing up', async () => {
  const { Server } = net;
  const strangers: net.Socket[] = [];
  // It connects as soon as the port is known, before anybody else does.
  const listen = jest.spyOn(Server.prototype, 'address').mockImplementation(function (this: net.Server) {
    listen.mockRestore();
    const address = this.address() as net.AddressInfo;
    strangers.push(net.connect({ host: '127.0.0.1', port: address.port, allowHalfOpen: true }));
    return address;
  });
  const port = await findFreePort('127.0.0.1');
  const rank0 = new Router();
  rank0.bindSync(`tcp://127.0.0.1:${port}`);
  rank0.close();
  for (const stranger of strangers) stranger.destroy();
  expect(strangers).toHaveLength(1);
});

test('a host that is none of this machine: an error that says so', async () => {
  await expect(findFreePort('192.0.2.1')).rejects.toMatchObject({
    code: 'ERR_ADDRESS_IN_USE',
    message: '192.0.2.1 is no address of this host. Correct masterAddr.',
  });
});
