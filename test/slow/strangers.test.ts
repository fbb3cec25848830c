import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { curveClient, type KeyPair } from '../../src/transport/control/curve';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { secureRun } from '../../src/rendezvous/run-security';
import { Crowd } from '../support/crowd';
import { linkPorts, listeningPorts, openFiles } from '../support/listening-ports';
import { cleanUpRanks, type RankProcess, startRanks, temporaryFolder, until, WITHOUT_KOFFI } from '../support/rings';
import { SteppingRing } from '../support/stepping-ring';
import { dawdle, intrude, knock, sendGigabyte, VISITS } from '../support/strangers';
import { describeWhere, needs } from '../support/test-where';

afterEach(cleanUpRanks);
afterAll(closeAllSockets);

/** So many files a rank may have open where strangers are to hold all of them, and so many strangers are enough. */
const FEW_FILES = 100;
const CROWD = 150;

/** A ring of processes whose links over loopback are encrypted. It forms when rank 2 is let go. */
async function ringOfProcesses(
  env: NodeJS.ProcessEnv = {},
  files?: number,
): Promise<{ ring: SteppingRing; ranks: RankProcess[]; runToken: string }> {
  const folder = temporaryFolder();
  const runToken = randomBytes(32).toString('hex');
  const program = SteppingRing.program(folder, { transport: 'tcp', encryption: 'on' });
  const ranks = await startRanks(3, program, { GRADRING_RUN_TOKEN: runToken, ...env }, files);
  return { ring: new SteppingRing(folder, Promise.race(ranks.map(({ ended }) => ended))), ranks, runToken };
}

/** Where a rank listens, as soon as it does. */
async function portsOf({ child }: RankProcess): Promise<number[]> {
  for (;;) {
    const ports = listeningPorts(child.pid!);
    if (ports.length > 0) return ports;
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

/** All that one stranger can do, one after the other; it stays where it is let stay. Returns how it leaves. */
async function besiege(at: 'link' | 'rendezvous', ports: readonly number[]): Promise<() => void> {
  const leavers: (() => void)[] = [];
  const { stop } = dawdle(ports);
  for (const port of ports) {
    leavers.push(...(await Promise.all(VISITS.map(([bytes, leave]) => intrude(port, bytes, leave)))));
    await sendGigabyte(port);
    const other = secureRun(randomBytes(32).toString('hex'));
    for (const curve of [{}, curveClient(other.guest, other.host.publicKey)]) {
      expect(await knock(at, port, curve)).toMatch(/^handshake:error/);
    }
  }
  return () => {
    stop();
    leavers.forEach(leave => leave());
  };
}

/** Every rank left in order, without a word of complaint. */
async function expectGoodEnd(ring: SteppingRing, ranks: readonly RankProcess[]): Promise<void> {
  ring.stop();
  for (const end of await Promise.all(ranks.map(({ ended }) => ended))) {
    expect(end).toMatchObject({ exitCode: 0, signal: null, stderr: '' });
  }
}

describeWhere(needs.linux)('strangers', () => {
  test('at the rendezvous of a ring that forms get nothing, and the ring forms', async () => {
    const { ring, ranks } = await ringOfProcesses();
    const leave = await besiege('rendezvous', await portsOf(ranks[0]!));
    ring.go();
    await ring.makeSteps();
    leave();
    await ring.makeSteps();
    await expectGoodEnd(ring, ranks);
  });

  test('who hold the keys of another rendezvous, or the public ones of this, are not let in', async () => {
    const { ring, ranks, runToken } = await ringOfProcesses();
    const [port] = await portsOf(ranks[0]!);
    const { host, guest, link } = secureRun(runToken);
    const comeWith = (own: KeyPair) => knock('rendezvous', port!, curveClient(own, host.publicKey));
    expect(await comeWith(link)).toBe('handshake:error:auth'); // ZAP's no
    expect(await comeWith({ ...link, publicKey: guest.publicKey })).toMatch(/^handshake:error/);
    expect(await comeWith(guest)).toBe('handshake'); // who knows the token
    ring.go();
    await ring.makeSteps();
    await expectGoodEnd(ring, ranks);
  });

  test('cannot connect to a link of a ring that runs, and at the rendezvous nobody listens any more', async () => {
    const { ring, ranks } = await ringOfProcesses();
    ring.go();
    await ring.makeSteps(1);
    const ports = await linkPorts(ranks.map(({ child }) => child.pid!));
    expect(ports).toHaveLength(3); // a link each
    const strangers = ports.map(port => connect(port, '127.0.0.1'));
    await ring.makeSteps();
    expect(strangers.map(({ connecting }) => connecting)).toEqual([true, true, true]);
    strangers.forEach(stranger => stranger.destroy());
    await expectGoodEnd(ring, ranks);
  });

  test('at links that keep their ports open disturb no step', async () => {
    const { ring, ranks, runToken } = await ringOfProcesses(WITHOUT_KOFFI);
    ring.go();
    await ring.makeSteps(1);
    const ports = await linkPorts(ranks.map(({ child }) => child.pid!));
    expect(ports).toHaveLength(3); // a link each
    let isOver = false;
    const siege = besiege('link', ports).finally(() => (isOver = true));
    while (!isOver) await ring.makeSteps(10); // during it
    const leave = await siege;
    await ring.makeSteps();
    const { host, guest } = secureRun(runToken); // one who knows even the token has no key of a link
    for (const port of ports) {
      expect(await knock('link', port, curveClient(guest, host.publicKey))).toMatch(/^handshake:error/);
    }
    leave();
    await ring.makeSteps();
    await expectGoodEnd(ring, ranks);
  });

  test('who hold all descriptors of a rank do not disturb a step', async () => {
    const { ring, ranks } = await ringOfProcesses(WITHOUT_KOFFI, FEW_FILES);
    ring.go();
    await ring.makeSteps(1);
    const { pid } = ranks[0]!.child;
    const crowd = new Crowd((await linkPorts([pid!]))[0]!, CROWD);
    await until(() => openFiles(pid) >= FEW_FILES);
    await ring.makeSteps(100);
    expect(openFiles(pid)).toBeGreaterThanOrEqual(FEW_FILES);
    await crowd.leave();
    await ring.makeSteps();
    await expectGoodEnd(ring, ranks);
  });

  test('who hold all descriptors of the rendezvous are told of, and the ring forms when they are gone', async () => {
    const { ring, ranks } = await ringOfProcesses({ GRADRING_STALL_MS: '500' }, FEW_FILES);
    const [first, ...others] = ranks;
    const crowd = new Crowd((await portsOf(first!))[0]!, CROWD);
    await until(() => openFiles(first!.child.pid) >= FEW_FILES);
    ring.go();
    await until(() => first!.stderr.includes('as many files and connections open as it may (100)'));
    await crowd.leave();
    await ring.makeSteps();
    ring.stop();
    for (const rank of others) expect(await rank.ended).toMatchObject({ exitCode: 0, stderr: '' });
    expect(await first!.ended).toMatchObject({ exitCode: 0 });
  });

  test.each([
    ['a rank has no room for its ring', 40, 3, /^ERR_OPEN_FILES Rank 0 must open 43 more .* may have open \(40\)/],
    [
      'rank 0 has no room for all ranks',
      200,
      500,
      /^ERR_OPEN_FILES Rank 0 must open 540 more .* may have open \(200\)/,
    ],
  ])('%s', async (_, files, worldSize, words) => {
    const program = `
      const options = { rank: 0, worldSize: ${worldSize} };
      await Communicator.connect(options).catch(error => say(error.code + ' ' + error.message));`;
    const [rank] = await startRanks(1, program, {}, files);
    expect((await rank!.ended).stdout).toMatch(words);
  });
});
