import { cleanUpRanks, foldersLeft, startRanks } from '../support/rings';
import { expectOwnExitCodes } from './ends';
import { testProcesses } from './process-ends';

afterEach(cleanUpRanks);

describe('over ipc', () => testProcesses('ipc')); // over TCP: test/slow/processes-over-tcp.test.ts

test('ranks that fail or exit while the ring forms end with their own exit codes', async () => {
  await expectOwnExitCodes(100); // at more instants: test/slow/ends.test.ts
  expect(foldersLeft()).toEqual([]);
});

test('a ring of one ends by itself, too', async () => {
  const source = `
    const ring = await Communicator.connect();
    say((await ring.allReduce(Float32Array.of(5), { op: 'mean' })).join());`;
  const [only] = await startRanks(1, source);
  expect(await only!.ended).toMatchObject({ exitCode: 0, stdout: '5\n' });
});
