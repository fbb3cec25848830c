import { COMMON_JS, expectTraining, hashOf, program, runOf, useProject } from '../core/without-tensorflow';

useProject();

test.each([1, 2])('a ring of %i trains there, and goes on from a checkpoint', async ranks => {
  await expectTraining(ranks);
}, 120_000); // prettier-ignore

test('three ranks train there; told to stop, they go on from where they saved, to the same bits', async () => {
  const hash = await expectTraining(3);
  const apart = { SAVED: 'stopped' };
  const stopped = program('train.cjs', COMMON_JS, runOf(3), { ...apart, STOP: '50' });
  await expect(stopped).rejects.toMatchObject({
    code: 75,
    stderr: expect.stringMatching(/All ranks have saved at step/) as string,
  });
  const resumed = await program('train.cjs', COMMON_JS, runOf(3), apart);
  expect(resumed[0]).toMatch(/^0 of 3 from 5\d /);
  expect(resumed.map(hashOf)).toEqual([hash, hash, hash]);
}, 120_000);
