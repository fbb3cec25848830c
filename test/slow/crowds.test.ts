import { randomBytes } from 'node:crypto';
import { Crowd } from '../support/crowd';
import { linkPorts, listeningPorts, openFiles } from '../support/listening-ports';
import {
  cleanUpRanks,
  type RankProcess,
  sleep,
  startRanks,
  temporaryFolder,
  until,
  WITHOUT_KOFFI,
} from '../support/rings';
import { SteppingRing } from '../support/stepping-ring';
import { sendGigabyte } from '../support/strangers';
import { describeWhere, needs } from '../support/test-where';

afterEach(cleanUpRanks);

const MANY = 10_000;
/** More strangers than a process may have open files, and that common limit. */
const TOO_MANY = 2_000;
const FEW_FILES = 1_024;
const GIGABYTE = 2 ** 30;

/** MANY strangers may keep the machine itself so busy that no heartbeat comes through in the default time. */
const PATIENT = { GRADRING_HEARTBEAT_TIMEOUT_MS: '60000' };

/** The links of these ranks keep their ports open. */
async function ringOfProcesses(
  files?: number,
  more: NodeJS.ProcessEnv = {},
): Promise<{ ring: SteppingRing; ranks: RankProcess[] }> {
  const folder = temporaryFolder();
  const program = SteppingRing.program(folder, { transport: 'tcp', encryption: 'on' });
  const env = { ...WITHOUT_KOFFI, GRADRING_RUN_TOKEN: randomBytes(32).toString('hex'), ...more };
  const ranks = await startRanks(3, program, env, files);
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
    const { ring, ranks } = await ringOfProcesses(undefined, PATIENT);
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
    const { ring, ranks } = await ringOfProcesses(undefined, PATIENT);
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

  test(`of ${TOO_MANY} at the rendezvous, where ${FEW_FILES} files may be open, only delays a ring`, async () => {
    const { ring, ranks } = await ringOfProcesses(FEW_FILES);
    while (portsOf(ranks).length === 0) await sleep(20);
    const crowd = new Crowd(portsOf(ranks)[0]!, TOO_MANY);
    await until(() => openFiles(ranks[0]!.child.pid) >= FEW_FILES);
    ring.go();
    await ring.makeSteps(); // in spite of them: each is dropped after a while
    await crowd.leave();
    await ring.makeSteps();
    await expectGoodEnd(ring, ranks);
  }, 180_000);

  test(`of ${TOO_MANY} at each link, where ${FEW_FILES} files may be open, disturbs no step`, async () => {
    const { ring, ranks } = await ringOfProcesses(FEW_FILES);
    ring.go();
    await ring.makeSteps(1);
    const crowds: Crowd[] = [];
    for (const pid of pidsOf(ranks)) {
      crowds.push(new Crowd((await linkPorts([pid]))[0]!, TOO_MANY));
      await until(() => openFiles(pid) >= FEW_FILES);
      await ring.makeSteps(500);
    }
    await Promise.all(crowds.map(crowd => crowd.leave()));
    await ring.makeSteps();
    await expectGoodEnd(ring, ranks);
  }, 180_000);

  test.each([1, 2, 3, 4, 5])('that holds all descriptors hides no lost rank: %s', async () => {
    const { ring, ranks } = await ringOfProcesses(100);
    ring.go();
    await ring.makeSteps(1);
    const [first, second, third] = ranks;
    const crowd = new Crowd((await linkPorts([first!.child.pid!]))[0]!, 150);
    await until(() => openFiles(first!.child.pid) >= 100);
    await ring.makeSteps();
    second!.child.kill('SIGKILL');
    for (const rank of [first, third]) {
      expect(await rank!.ended).toMatchObject({
        exitCode: 1,
        stderr: expect.stringMatching(/Rank 1 .* is gone/) as string,
      });
    }
    await crowd.leave();
  });

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
