import { isLoopback } from '../../src/rendezvous/host-identity';

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
