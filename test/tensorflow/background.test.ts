import { RING_SIZES, runScenariosInRings } from './support';

describe.each(RING_SIZES)('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('background.js', ranks);

  // A save that is not in the background would wait for ever. The ranks tell each other with the exchange of step 6
  // that all have written; with overlap they know it one step later. The next save is due at step 8.
  test.each([
    ['goes on', 6],
    ['goes on with overlap', 7],
  ])('the training %s while files are written', (scenario, completeAt) => {
    for (const value of valuesOf(scenario)) {
      const seen = [1, 2, 3, 4, 5, 6, 7].map(step => (step < completeAt ? [] : [4]));
      expect(value).toEqual({ seen, at: 4, isSame: true });
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

  test('a folder that cannot be written does not keep the other from being written', () => {
    for (const value of valuesOf('a best folder that cannot be written')) expect(value).toEqual([[2, 4], 2]);
  });

  test('a step right after save() or finish() is refused', () => {
    for (const value of valuesOf('a step within a save')) {
      expect(value).toEqual(Array(2).fill(expect.stringContaining('is being saved: await')));
    }
  });

  test('state that JSON would change is told at its step', () => {
    for (const value of valuesOf('a failing state')) {
      expect(value).toEqual(['ERR_INVALID_ARGUMENT', expect.stringContaining('state.loss: it is NaN')]);
    }
  });

  test('what the function `state` throws on one rank is an error of all ranks, or a warning', () => {
    for (const value of valuesOf('a state that throws')) expect(value).toEqual(['ERR_CHECKPOINT', 9, [], []]);
  });

  test('a save that is not complete when the ring is closed is told', () => {
    for (const { warnings, isWritten } of valuesOf<{ warnings: string[]; isWritten: boolean }>('is not awaited')) {
      expect(warnings).toEqual([
        expect.stringMatching(/^The checkpoint of step 1 in .* was written, but the ranks have not completed it\. /),
      ]);
      expect(isWritten).toBe(true); // before the folder is given back
    }
  });
});
