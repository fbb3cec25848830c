import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { makeSocketFolder } from '../../src/rendezvous/socket-folder';
import { cleanUpRanks, sleep, startRanks } from '../support/rings';
import { needs, testWhere } from '../support/test-where';

afterEach(cleanUpRanks);

/**
 * As Linux writes them in `/proc/net/tcp`: the state of a socket, and 127.0.0.1, which an IPv6 socket has as
 * ::ffff:127.0.0.1.
 */
const LISTENS = '0A';
const LOOPBACK = /^(0000000000000000FFFF0000)?0100007F$/;

/** At which addresses a process listens. */
function listeningAddresses(pid: number): string[] {
  const sockets = readdirSync(`/proc/${pid}/fd`).map(descriptor => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${descriptor}`);
    } catch {
      return ''; // closed meanwhile
    }
  });
  return ['tcp', 'tcp6'].flatMap(table =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .split('\n')
      .map(line => line.trim().split(/\s+/))
      .filter(columns => columns[3] === LISTENS && sockets.includes(`socket:[${columns[9]}]`))
      .map(columns => columns[1]!.split(':')[0]!),
  );
}

testWhere(needs.linux)('ranks of one host listen on loopback alone', async () => {
  const ranks = await startRanks(
    3,
    `const ring = await Communicator.connect();
       say('stands');
       process.stdin.once('data', async () => { await ring.close(); process.exit(); });`,
    { GRADRING_TRANSPORT: 'tcp' },
  );
  const seen = new Set<string>();
  let isStanding = false;
  const standing = Promise.all(ranks.map(rank => rank.said('stands'))).finally(() => (isStanding = true));
  for (let isLast = false; !isLast; await sleep(1)) {
    isLast = isStanding;
    for (const { child } of ranks) for (const address of listeningAddresses(child.pid!)) seen.add(address);
  }
  await standing;
  expect(seen.size).toBeGreaterThan(0);
  expect([...seen].filter(address => !LOOPBACK.test(address))).toEqual([]);
  for (const { child } of ranks) child.stdin!.end('go');
  expect(await Promise.all(ranks.map(rank => rank.ended))).toMatchObject([0, 1, 2].map(() => ({ exitCode: 0 })));
});

test('only this user may enter the folder of a unix socket, whatever the umask', () => {
  const parent = mkdtempSync(path.join(tmpdir(), 'grt-'));
  const umask = process.umask(0);
  try {
    expect((statSync(makeSocketFolder(parent)).mode & 0o777).toString(8)).toBe('700');
  } finally {
    process.umask(umask);
    rmSync(parent, { recursive: true });
  }
});
