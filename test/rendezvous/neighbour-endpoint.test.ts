import { chmodSync, chownSync, mkdtempSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { endpointFault } from '../../src/rendezvous/neighbour-endpoint';
import { makeSocketFolder } from '../../src/rendezvous/socket-folder';

const NEAR = { bySocket: true, byLoopback: true };
const FAR = { bySocket: false, byLoopback: false };

let parent: string;
beforeEach(() => (parent = mkdtempSync(path.join(tmpdir(), 'grt-'))));
afterEach(() => rmSync(parent, { recursive: true, force: true }));

test.each(['tcp://127.0.0.1:1', 'tcp://[::1]:65535', 'tcp://10.0.0.7:40123', 'tcp://[fd00::7]:40123'])(
  'a rank may listen at %s',
  endpoint => expect(endpointFault(endpoint, NEAR)).toBeUndefined(),
);

test.each([
  ...['garbage', '', 'tcp://', 'tcp://10.0.0.7', 'tcp://10.0.0.7:0', 'tcp://10.0.0.7:65536', 'tcp://10.0.0.7:1.5'],
  ...['tcp://printer.example:80', 'tcp://*:80', 'tcp://fd00::7:1', 'tcp://[10.0.0.7]x:1', 'tcp://1.2.3:80'],
  ...['tcp://eth0;10.0.0.7:1', 'tcp://10.0.0.7:1;10.0.0.8:1', 'udp://10.0.0.7:1', 'inproc://zeromq.zap.01', 'pgm://a;b:1'],
  ...['TCP://10.0.0.7:1', ' tcp://10.0.0.7:1', 'tcp://10.0.0.7:1\n'],
])('but not at %j', endpoint => {
  expect(endpointFault(endpoint, NEAR)).toBe('is neither tcp://ADDRESS:PORT nor a unix socket');
}); // prettier-ignore

test('a rank on another host is not reached by loopback, where other programs of this host listen, nor by a socket', () => {
  for (const endpoint of ['tcp://127.0.0.1:6379', 'tcp://[::1]:6379', 'tcp://[::ffff:127.0.0.1]:6379']) {
    expect(endpointFault(endpoint, FAR)).toBe('is on loopback, but the rank is on another host');
  }
  expect(endpointFault('tcp://10.0.0.7:40123', FAR)).toBeUndefined();
  const socket = `ipc://${makeSocketFolder(parent)}/left`;
  expect(endpointFault(socket, FAR)).toBe('is a unix socket, but the rank is on another host');
});

describe('a unix socket', () => {
  const fault = 'is no socket of gradring in a folder of this user alone';

  test('may be in a folder that gradring has made', () => {
    expect(endpointFault(`ipc://${makeSocketFolder(parent)}/left`, NEAR)).toBeUndefined();
    const inner = makeSocketFolder(makeSocketFolder(parent)); // as below a launcher
    expect(endpointFault(`ipc://${inner}/left`, NEAR)).toBeUndefined();
  });

  test.each(['/etc/passwd', '/run/docker.sock', '/tmp', 'left', '@abstract', '/nowhere/gradring-abcdef/left', '/*'])(
    'is not %s',
    place => expect(endpointFault(`ipc://${place}`, NEAR)).toBe(fault),
  );

  test('is not beside the socket of a rank, nor on a way through another folder', () => {
    const folder = makeSocketFolder(parent);
    for (const place of ['queues', 'left/', '../left', './left', `../${path.basename(folder)}/left`]) {
      expect(endpointFault(`ipc://${folder}/${place}`, NEAR)).toBe(fault);
    }
  });

  test('is not in a folder that others may enter, or that a link leads to, or that is too deep', () => {
    const folder = makeSocketFolder(parent);
    const link = path.join(parent, 'gradring-linked');
    symlinkSync(folder, link);
    expect(endpointFault(`ipc://${link}/left`, NEAR)).toBe(fault);
    const deep = path.join(makeSocketFolder(parent), 'x'.repeat(80));
    renameSync(makeSocketFolder(parent), deep);
    expect(endpointFault(`ipc://${makeSocketFolder(deep)}/left`, NEAR)).toBe(fault);
    for (const mode of [0o755, 0o770, 0o701]) {
      chmodSync(folder, mode);
      expect(endpointFault(`ipc://${folder}/left`, NEAR)).toBe(fault);
    }
  });

  (process.getuid?.() === 0 ? test : test.skip)('is not in a folder of another user', () => {
    const folder = makeSocketFolder(parent);
    chownSync(folder, 65_534, 65_534);
    expect(endpointFault(`ipc://${folder}/left`, NEAR)).toBe(fault);
  });
});
