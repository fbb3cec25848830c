import { cleanUpRanks, foldersLeft, startRanks } from '../support/rings';
import { expectAllFrames } from './ends';
import { testKills, testPauses } from './process-ends';

afterEach(cleanUpRanks);

// Other calls and ends, over TCP too: test/slow/processes.test.ts and test/slow/ends.test.ts.
testKills('ipc', ['reduces large arrays']);
testPauses('ipc');

test('a script that falls off its end right after its last collective leaves nobody without its frames', async () => {
  await expectAllFrames('falls off its end', { GRADRING_TRANSPORT: 'ipc' });
  expect(foldersLeft()).toEqual([]);
});

test('a ring of one ends by itself, too', async () => {
  const source = `
    const ring = await Communicator.connect();
    say((await ring.allReduce(Float32Array.of(5), { op: 'mean' })).join());`;
  const [only] = await startRanks(1, source);
  expect(await only!.ended).toMatchObject({ exitCode: 0, stdout: '5\n' });
});
