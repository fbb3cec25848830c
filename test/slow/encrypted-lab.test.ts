import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { curveKeyPair } from 'zeromq';
import { curveClient } from '../../src/transport/control/curve';
import { ROOT, script, temporaryFolder } from '../launcher/support';
import { linkPorts } from '../support/listening-ports';
import { sleep } from '../support/rings';
import { SteppingRing } from '../support/stepping-ring';
import { dawdle, intrude, knock, mechanismAt, sendGigabyte, VISITS } from '../support/strangers';
import { finished, netlabWith, ownLab, removeLabs } from './support/netlab';
import { describeWith } from './support/programs';

afterEach(removeLabs);

const MASTER_PORT = 29_500;

/** With it the ranks cannot make system calls. So their links keep their ports open, and strangers can try. */
const NO_KOFFI = path.join(__dirname, '../support/no-koffi.js');

/** All that a stranger on another host can do. Returns how it leaves. */
async function besiege(at: 'link' | 'rendezvous', host: string, port: number): Promise<() => void> {
  const { stop } = dawdle([port], host);
  const leavers = await Promise.all(VISITS.map(([bytes, leave]) => intrude(port, bytes, leave, host)));
  await sendGigabyte(port, 100_000, host);
  for (const curve of [{}, curveClient(curveKeyPair(), curveKeyPair().publicKey)]) {
    expect(await knock(at, port, curve, host)).toMatch(/^handshake:error/);
  }
  return () => {
    stop();
    leavers.forEach(leave => leave());
  };
}

describeWith(['ip'], 'a ring between hosts', () => {
  test('is encrypted without being asked, and strangers on the network disturb neither its forming nor its steps', async () => {
    const lab = ownLab('s');
    const { stdout } = await finished('up', '3', '--name', lab, '--rate', 'none');
    const prefix = /, (10\.77\.\d+\.)1 … /.exec(stdout)![1]!;
    const hosts = [1, 2, 3].map(last => `${prefix}${last}`);
    const folder = temporaryFolder();
    const source = `
      const { Communicator } = require(${JSON.stringify(path.join(ROOT, 'dist/communicator/communicator.js'))});
      const say = console.log;
      const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
      (async () => {${SteppingRing.program(folder, {})}})();`;
    const token = randomBytes(32).toString('hex');
    const command = ['exec', '--name', lab, '--', process.execPath, '--require', NO_KOFFI, script(source)];
    const program = netlabWith({ GRADRING_RUN_TOKEN: token, GRADRING_ENCRYPTION: '' }, ...command);
    const ring = new SteppingRing(folder, program.exited);

    while ((await mechanismAt(MASTER_PORT, hosts[0])) !== 'CURVE') await sleep(50);
    const leavers = [await besiege('rendezvous', hosts[0]!, MASTER_PORT)];
    ring.go();
    await ring.makeSteps(1);
    while ((await mechanismAt(MASTER_PORT, hosts[0])) !== 'no ZeroMQ') await sleep(20); // soon nobody listens any more
    const pids = await program.readyRanks(3);
    for (const [rank, host] of hosts.entries()) {
      const ports = await linkPorts([pids[rank]!]);
      expect(ports).toHaveLength(1);
      expect(await mechanismAt(ports[0]!, host)).toBe('CURVE');
      let isOver = false;
      const siege = besiege('link', host, ports[0]!).finally(() => (isOver = true));
      while (!isOver) await ring.makeSteps(10); // during it
      leavers.push(await siege);
    }
    await ring.makeSteps();
    leavers.forEach(leave => leave());
    await ring.makeSteps();
    ring.stop();
    expect(await program.exited).toEqual({ exitCode: 0, signal: null });
    expect(program.stderr).toBe('');
    expect(program.stdout).not.toContain(token);
  });
});
