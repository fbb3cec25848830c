import type { NetworkInterfaceInfo } from 'node:os';
import { addressForOthers, isLoopback } from '../../src/environment/network';

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
  const facts = { netmask: '', mac: '', cidr: null };
  const addresses = ['127.0.0.1', '::1', ...outer].map((address, position): NetworkInterfaceInfo => {
    const internal = position < 2;
    return address.includes(':')
      ? { ...facts, address, internal, family: 'IPv6', scopeid: 0 }
      : { ...facts, address, internal, family: 'IPv4' };
  });
  expect(addressForOthers(addresses)).toBe(chosen);
});
