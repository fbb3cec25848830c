import { randomBytes } from 'node:crypto';
import { Crowd } from '../support/crowd';
import { linkPorts, listeningPorts } from '../support/listening-ports';
import { cleanUpRanks, type RankProcess, sleep, startRanks, temporaryFolder } from '../support/rings';
import { SteppingRing } from '../support/stepping-ring';
import { sendGigabyte } from '../support/strangers';
import { describeWhere, needs } from '../support/test-where';

afterEach(cleanUpRanks);

const MANY = 10_000;
const GIGABYTE = 2 ** 30;

async function ringOfProcesses(options: object = {}): Promise<{ ring: SteppingRing; ranks: RankProcess[] }> {
  const folder = temporaryFolder();
  const program = SteppingRing.program(folder, { transport: 'tcp', encryption: 'on', ...options });
  const ranks = await startRanks(3, program, { GRADRING_RUN_TOKEN: randomBytes(32).toString('hex') });
  return { ring: new SteppingRing(folder, Promise.race(ranks.map(({ ended }) => ended))), ranks };
}

const pidsOf = (ranks: readonly RankProcess[]): number[] => ranks.map(({ child }) => child.pid!);
const portsOf = (ranks: readonly RankProcess[]): number[] => pidsOf(ranks).flatMap(pid => listeningPorts(pid));

async function expectGoodEnd(ring: SteppingRing, ranks: readonly RankProcess[]): Promise<void> {
  ring.stop();
  for (const end of await Promise.all(ranks.map(({ ended }) => ended))) {
    expect(end).toMatchObject({ exitCode: 0, signal: null, stderr: '' });
  }
}

describeWhere(needs.linux)('a crowd of strangers', () => {
  test(`of ${MANY} at the rendezvous does not keep a ring from forming`, async () => {
    const { ring, ranks } = await ringOfProcesses();
    while (portsOf(ranks).length === 0) await sleep(20);
    const crowd = new Crowd(portsOf(ranks)[0]!, MANY);
    expect(await crowd.come).toBe('all');
    ring.go();
    await ring.makeSteps();
    await crowd.leave();
    await ring.makeSteps();
    await expectGoodEnd(ring, ranks);
  }, 180_000);

  test(`of ${MANY} at each link disturbs no step, neither while they come, nor stay, nor leave`, async () => {
    const { ring, ranks } = await ringOfProcesses();
    ring.go();
    await ring.makeSteps(1);
    for (const port of await linkPorts(pidsOf(ranks))) {
      const crowd = new Crowd(port, MANY);
      let isThere = false;
      const come = crowd.come.finally(() => (isThere = true));
      while (!isThere) await ring.makeSteps(5);
      expect(await come).toBe('all');
      await ring.makeSteps();
      await crowd.leave();
      await ring.makeSteps();
    }
    await expectGoodEnd(ring, ranks);
  }, 300_000);

  test('that sends a gigabyte each is cut off before it has sent much', async () => {
    const { ring, ranks } = await ringOfProcesses();
    while (portsOf(ranks).length === 0) await sleep(20);
    expect(await sendGigabyte(portsOf(ranks)[0]!, GIGABYTE)).toBeLessThan(64 * 2 ** 20);
    ring.go();
    await ring.makeSteps(1);
    const links = await linkPorts(pidsOf(ranks));
    const siege = Promise.all(links.flatMap(port => [1, 2, 3].map(() => sendGigabyte(port, GIGABYTE))));
    await ring.makeSteps();
    for (const sent of await siege) expect(sent).toBeLessThan(64 * 2 ** 20);
    await ring.makeSteps();
    await expectGoodEnd(ring, ranks);
  }, 120_000);
});
