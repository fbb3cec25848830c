import os, { type NetworkInterfaceInfo } from 'node:os';
import {
  addressForOthers,
  addressOfInterface,
  isLoopback,
  NETWORK_FAULTS,
  type PortRange,
  portRangeOf,
} from '../../src/environment/network';

afterEach(() => jest.restoreAllMocks());

/** Addresses of one interface. */
function addressesOf(addresses: readonly string[], internal = false): NetworkInterfaceInfo[] {
  const facts = { netmask: '', mac: '', cidr: null, internal };
  return addresses.map(address =>
    address.includes(':') ? { ...facts, address, family: 'IPv6', scopeid: 0 } : { ...facts, address, family: 'IPv4' },
  );
}

test.each(['localhost', '127.0.0.1', '127.1.2.3', '::1', '::ffff:127.0.0.1'])('%s reaches only this host', address => {
  expect(isLoopback(address)).toBe(true);
});

// What is no address is a name, and somebody may answer to it.
test.each(['', '10.0.0.7', '128.0.0.1', '127.0.0.999', '127.0.0.1.example', '127.0.0', '::2', '::ffff:10.0.0.1'])(
  '%s may reach others',
  address => {
    expect(isLoopback(address)).toBe(false);
  },
);

test.each([
  [['10.0.0.7'], '10.0.0.7'],
  [['2001:db8::7', '10.0.0.7'], '10.0.0.7'],
  [['fe80::1', '2001:db8::7'], '2001:db8::7'],
  [['fe80::1'], undefined],
  [[], undefined],
])('of the addresses %p, others reach %p', (outer, chosen) => {
  expect(addressForOthers([...addressesOf(['127.0.0.1', '::1'], true), ...addressesOf(outer)])).toBe(chosen);
});

test.each<[string, PortRange | undefined]>([
  ['30000-30100', { first: 30_000, last: 30_100 }],
  ['1-65535', { first: 1, last: 65_535 }],
  ['7-7', { first: 7, last: 7 }],
  ...['', '7', '8-7', '0-7', '1-65536', '1-100000', ' 1-2', '1-2-3', '1–2', '-1-2', '1e3-2e3'].map(
    (text): [string, undefined] => [text, undefined],
  ),
])('the ports of %j are %j', (text, range) => {
  expect(portRangeOf(text)).toEqual(range);
  expect(NETWORK_FAULTS.portRange(text)).toEqual(range ? undefined : expect.stringContaining('such as 30000-30100'));
});

test('an interface is IPv4 first, else global IPv6; an error names those that there are', () => {
  jest.spyOn(os, 'networkInterfaces').mockReturnValue({
    lo: addressesOf(['127.0.0.1', '::1'], true),
    eth0: addressesOf(['fe80::1', '2001:db8::7', '10.0.0.7']),
    ib0: addressesOf(['fe80::2', '2001:db8::8']),
    wlan0: addressesOf(['fe80::3']),
  });
  expect(['lo', 'eth0', 'ib0', 'wlan0', 'eth9', 'constructor'].map(name => addressOfInterface(name))).toEqual([
    ...['127.0.0.1', '10.0.0.7', '2001:db8::8'],
    ...[undefined, undefined, undefined],
  ]);
  expect(addressOfInterface('eth0', '2001:db8::7')).toBe('2001:db8::7');
  expect(addressOfInterface('eth0', '10.1.0.7')).toBe('10.0.0.7');
  expect(NETWORK_FAULTS.iface('ib0')).toBeUndefined();
  for (const wrong of ['wlan0', 'eth9']) expect(NETWORK_FAULTS.iface(wrong)).toMatch(/has an address: lo, eth0, ib0$/);
});

test.each(['10.0.0.7', '2001:db8::7', '[2001:db8::7]'])('%s may be advertised', address => {
  expect(NETWORK_FAULTS.advertiseAddr(address)).toBeUndefined();
});

test.each([
  '127.0.0.1',
  '::1',
  '[::1]',
  'localhost',
  '0.0.0.0',
  '::',
  'node-1',
  '10.0.0',
  '10.0.0.7:80',
  'fe80::1',
  '[fe80::1%eth0]',
  '',
])('%j may not: no other host reaches this one there', address => {
  expect(NETWORK_FAULTS.advertiseAddr(address)).toBe('an IP address at which other hosts reach this one');
});
