import { COMMON_JS, program, runOf, useProject } from './without-tensorflow';

useProject();

test('gradring itself does not load there, gradring/core does, with the same names either way', async () => {
  const source = `
    import { createRequire } from 'node:module';
    import * as imported from 'gradring/core';
    const require = createRequire(import.meta.url);
    try {
      require('gradring');
    } catch (error) {
      console.log(error.code, error.message.split('\\n')[0]);
    }
    const required = require('gradring/core');
    console.log(Object.keys(required).filter(name => required[name] !== imported[name]).length, typeof imported.connect);`;
  expect(await program('names.mjs', source)).toEqual([
    '0 function',
    "MODULE_NOT_FOUND Cannot find module '@tensorflow/tfjs'",
  ]);
});

// Trainings there: test/slow/without-tensorflow.test.ts.
test('a run that may lose ranks is refused in words', async () => {
  const failing = program('train.cjs', COMMON_JS, [...runOf(2), '--min', '1']);
  await expect(failing).rejects.toThrow(/gradring\/core does not support elastic runs/);
});
