import dns from 'node:dns/promises';
import os from 'node:os';
import { addressToConnect, placeForPeers } from '../../src/rendezvous/host-identity';

afterEach(() => jest.restoreAllMocks());

const MASTER = { masterAddr: '127.0.0.1', masterPort: 4 };
const address = { address: '10.0.0.7', netmask: '', mac: '', cidr: null, internal: false, family: 'IPv4' } as const;
beforeEach(() => {
  jest.spyOn(os, 'networkInterfaces').mockReturnValue({
    lo: [{ ...address, address: '127.0.0.1', internal: true }],
    eth0: [address],
    eth1: ['10.1.0.7', '10.2.0.7'].map(each => ({ ...address, address: each })),
  });
});

test.each([
  [{}, { bind: '10.0.0.7', told: '10.0.0.7' }],
  [{ iface: 'eth1' }, { bind: '10.1.0.7', told: '10.1.0.7' }],
  [{ advertiseAddr: '192.0.2.1' }, { bind: '*', told: '192.0.2.1' }],
  [{ advertiseAddr: '[2001:db8::7]' }, { bind: '*', told: '2001:db8::7' }],
  [
    { iface: 'eth1', advertiseAddr: '192.0.2.1' },
    { bind: '10.1.0.7', told: '192.0.2.1' },
  ],
  [
    { iface: 'eth1', advertiseAddr: '10.2.0.7' },
    { bind: '10.2.0.7', told: '10.2.0.7' },
  ],
  [{ iface: 'lo' }, { bind: '127.0.0.1', told: '127.0.0.1' }],
])('with %j a rank listens and is reached at %j', async (choice, place) => {
  expect(await placeForPeers({ ...MASTER, ...choice })).toEqual(place);
});

test('loopback is no interface for a ring whose master is on another host', async () => {
  const choice = { ...MASTER, masterAddr: '10.0.0.8', iface: 'lo' };
  await expect(placeForPeers(choice)).rejects.toMatchObject({
    code: 'ERR_INVALID_ENVIRONMENT',
    message: "The interface is lo, at which no other host reaches this one; MASTER_ADDR is '10.0.0.8'.",
  });
});

test('an interface that has lost its address is an error', async () => {
  await expect(placeForPeers({ ...MASTER, iface: 'eth2' })).rejects.toMatchObject({
    ...{ code: 'ERR_ADDRESS_IN_USE', message: 'Interface eth2 has no address any more.' },
  });
});

test.each([
  ['of both kinds', [{ address: '2001:db8::7', family: 6 }, address.address], '10.0.0.7'],
  ['of IPv6 only', [{ address: '2001:db8::7', family: 6 }], 'master'],
  ['of IPv4 only', [address.address], 'master'],
  ['that nobody knows yet', new Error('ENOTFOUND'), 'master'],
])('ZeroMQ gets a name with addresses %s as it can connect to it', async (_, found, chosen) => {
  const answer = found instanceof Error ? Promise.reject(found) : Promise.resolve(found.map(withFamily));
  jest.spyOn(dns, 'lookup').mockReturnValue(answer as never);
  expect(await addressToConnect('master')).toBe(chosen);
});

const withFamily = (found: string | object) => (typeof found === 'string' ? { address: found, family: 4 } : found);
