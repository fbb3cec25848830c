import { runScenariosInRings } from './support';

describe.each([1, 2, 3])('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('background.js', ranks);

  // The disk of the last rank waits until step 6. All complete the save of step 4 after a later step, the save of step
  // 8 at the end at the latest. A save that is not in the background would wait for ever.
  test.each(['goes on', 'goes on with overlap'])('the training %s while files are written', scenario => {
    for (const { seen, ...rest } of valuesOf<{ seen: number[][] }>(scenario)) {
      expect(seen.slice(0, 6)).toEqual(Array(6).fill([]));
      expect([[], [4]]).toContainEqual(seen[6]);
      expect(seen.slice(7, 8)).toEqual([[4]]); // it is completed before the next begins
      expect(seen[10]!.slice(0, 1)).toEqual([4]);
      expect(rest).toMatchObject({ all: [4, 8], at: 8, isSame: true });
    }
  });

  test('the files are those of a save for which the training waits', () => {
    for (const [background, foreground] of valuesOf<[number, [string, string][]][][]>('the same files')) {
      expect(background!.map(([step]) => step)).toEqual([3, 6]);
      expect(background).toEqual(foreground);
    }
  });

  test('the best epoch is saved in the background, too, and all is complete when model.fit is over', () => {
    for (const value of valuesOf('the best epoch, too')) expect(value).toEqual([[2, 4, 6], [4]]);
  });

  test('an error in writing is raised on all ranks after a later step, or is a warning; the checkpoint before stays', () => {
    for (const value of valuesOf('an error')) {
      expect(value).toEqual({
        ...{ code: 'ERR_CHECKPOINT', kept: [4], warned: 2, resumed: [8] },
        words: expect.stringMatching(
          RegExp(`^Rank ${ranks - 1}: .*cannot write …/save-000002-step-8/rank-${ranks - 1}\\.safetensors: ENOSPC`),
        ),
      });
    }
  });

  test('state that JSON would change is told at its step', () => {
    for (const value of valuesOf('a failing state')) {
      expect(value).toEqual(['ERR_INVALID_ARGUMENT', expect.stringContaining('state.loss: it is NaN')]);
    }
  });

  test('a save that is not complete when the ring is closed is told', () => {
    for (const [warning] of valuesOf<string[]>('is not awaited')) {
      expect(warning).toMatch(/^The checkpoint of step 1 in .* was not completed\. Call checkpoint\.finish\(\)/);
    }
  });
});
