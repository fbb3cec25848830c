import { randomBytes } from 'node:crypto';
import { curveClient, type KeyPair } from '../../src/transport/control/curve';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { secureRun } from '../../src/rendezvous/run-security';
import { linkPorts, listeningPorts } from '../support/listening-ports';
import { cleanUpRanks, type RankProcess, startRanks, temporaryFolder } from '../support/rings';
import { SteppingRing } from '../support/stepping-ring';
import { dawdle, intrude, knock, sendGigabyte, VISITS } from '../support/strangers';
import { describeWhere, needs } from '../support/test-where';

afterEach(cleanUpRanks);
afterAll(closeAllSockets);

/** A ring of processes whose links over loopback are encrypted. It forms when rank 2 is let go. */
async function ringOfProcesses(): Promise<{ ring: SteppingRing; ranks: RankProcess[]; runToken: string }> {
  const folder = temporaryFolder();
  const runToken = randomBytes(32).toString('hex');
  const program = SteppingRing.program(folder, { transport: 'tcp', encryption: 'on' });
  const ranks = await startRanks(3, program, { GRADRING_RUN_TOKEN: runToken });
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

  test('at the links of a ring that runs disturb no step; at the rendezvous nobody listens any more', async () => {
    const { ring, ranks, runToken } = await ringOfProcesses();
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
});
