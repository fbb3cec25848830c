import { expectAllFrames, expectOwnExitCodes, WAYS_TO_END } from '../communicator/ends';
import { cleanUpRanks, foldersLeft } from '../support/rings';

afterEach(cleanUpRanks);

describe.each(['ipc', 'tcp'])('over %s', transport => {
  test.each(Object.keys(WAYS_TO_END))(
    'a script that %s right after its last collective leaves nobody without its frames',
    async way => {
      for (let round = 0; round < 2; round++) await expectAllFrames(way, { GRADRING_TRANSPORT: transport });
      expect(foldersLeft()).toEqual([]);
    },
    120_000,
  );
});

test('ranks that fail or exit while the ring forms, at whatever instant, end with their own exit codes', async () => {
  for (let ms = 40; ms <= 220; ms += 36) await expectOwnExitCodes(ms);
  expect(foldersLeft()).toEqual([]);
}, 300_000);
