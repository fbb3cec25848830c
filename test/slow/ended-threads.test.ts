import { randomBytes } from 'node:crypto';
import { cleanUpRanks, freePort, RankProcess } from '../support/rings';

afterEach(cleanUpRanks);

test('comm threads that end with words unheard do not harm the others of their process', async () => {
  // Each stranger's join waits in a socket that lingers when its thread has ended.
  const token = randomBytes(32).toString('hex');
  const source = `
    const place = { worldSize: 2, masterPort: ${await freePort()}, transport: 'tcp', encryption: 'on' };
    const stranger = () =>
      Communicator.connect({ ...place, rank: 1, runToken: '${randomBytes(32).toString('hex')}', connectTimeoutMs: 1 }).catch(tell);
    const first = Communicator.connect({ ...place, rank: 0, runToken: '${token}' });
    for (let round = 0; round < 2; round++) await Promise.all([stranger(), stranger(), stranger()]);
    const ring = await Promise.all([first, Communicator.connect({ ...place, rank: 1, runToken: '${token}' })]);
    await sleep(1000); // longer than any socket lingers
    const sums = await Promise.all(ring.map(rank => rank.allReduce(Int32Array.of(rank.rank + 1))));
    say('sums ' + sums.flat().map(([sum]) => sum));
    await Promise.all(ring.map(rank => rank.close()));`;
  const { ended } = new RankProcess(source, {});
  const { exitCode, signal, stdout, stderr } = await ended;
  expect({ exitCode, signal, stderr }).toEqual({ exitCode: 0, signal: null, stderr: '' });
  expect(stdout.match(/error ERR_RENDEZVOUS_TIMEOUT 0/g)).toHaveLength(6);
  expect(stdout).toMatch('sums 3,3');
});
