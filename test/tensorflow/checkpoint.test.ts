import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { resultsOf } from './checkpoint-runs';
import { firstRuns, testResumedFits, testResumedLoops } from './resumptions';

// Other optimizers and compressors: test/slow/checkpoint.test.ts.
describe('a custom loop that is resumed in other processes', () => testResumedLoops(['momentum'], ['powerSgd']));

describe('model.fit that is resumed in other processes', () =>
  testResumedFits([{ optimizerName: 'momentum', every: 5, at: { step: 5, epoch: 1, batch: 1 } }]));

/** Runs a fixture as a program without a launcher, and returns what it prints. */
async function runAlone(name: string, ...args: string[]): Promise<unknown> {
  const program = path.join(__dirname, 'fixtures', name);
  return JSON.parse((await promisify(execFile)(process.execPath, [program, ...args])).stdout);
}

test('a relative path means the folder in which it was given: checkpoints, models, timelines', async () => {
  const root = mkdtempSync(path.join(tmpdir(), 'gradring-resume-'));
  try {
    for (const name of ['start', 'elsewhere']) mkdirSync(path.join(root, name));
    expect(await runAlone('working-folder.js', root)).toEqual({
      start: ['checkpoints', 'model', 'trace'],
      elsewhere: [],
      saves: ['save-000001-step-1', 'save-000002-step-2'],
      step: 2,
    });
  } finally {
    rmSync(root, { recursive: true });
  }
});

describe('misuse, and what does not fit', () => {
  type Outcome = { code?: string; message?: string; value?: unknown; details?: { rank?: number } };
  const run = firstRuns.add<Record<string, Outcome>>('misuse', [{ folder: 'misuse' }]);
  let byRank: readonly Record<string, Outcome>[];
  beforeAll(async () => {
    [byRank] = (await run()).map(resultsOf) as [Record<string, Outcome>[]];
  });

  test.each([
    ['no dir', 'ERR_INVALID_ARGUMENT', /needs dir, the path of a folder/],
    ['unknown option', 'ERR_INVALID_ARGUMENT', /no option 'evry'\. Did you mean every\?/],
    ['every', 'ERR_INVALID_ARGUMENT', /every is 0; it must be a whole number of at least 1/],
    ['keep', 'ERR_INVALID_ARGUMENT', /keep is 0;/],
    ['state', 'ERR_INVALID_ARGUMENT', /state must be a function/],
    ['residuals', 'ERR_INVALID_ARGUMENT', /residuals is 'sum'; it must be 'redistribute' or 'drop'/],
    ['onDamage', 'ERR_INVALID_ARGUMENT', /onDamage is 'ignore'/],
    ['onFailure', 'ERR_INVALID_ARGUMENT', /onFailure is 'ignore'/],
    ['background', 'ERR_INVALID_ARGUMENT', /^background is 1; it must be true or false/],
    ['saveOnStop', 'ERR_INVALID_ARGUMENT', /^saveOnStop is 'no'; it must be true or false/],
    ['nothing to resume, and other variables', 'ERR_MODEL_MISMATCH', /variable 0 is 'of rank\/0'.* but 'of rank\/1'/],
    ['not wrapped', 'ERR_INVALID_ARGUMENT', /compiled with ring\.wrap/],
    [
      'a promise in state',
      'ERR_INVALID_ARGUMENT',
      /^Rank 0: A checkpoint cannot hold state: it is a Promise.* Await it/,
    ],
    ['NaN in state', 'ERR_INVALID_ARGUMENT', /^Rank 1: .*cannot hold state\.history\[3\]\.loss: it is NaN/],
    ['a promise in commit', 'ERR_INVALID_ARGUMENT', /ring\.commit cannot pass on state: it is a Promise/],
    ['trained variable left out', 'ERR_INVALID_ARGUMENT', /trains 'left-out\/b', which is not among the variables/],
    ['adamax', 'ERR_INVALID_ARGUMENT', /state of Adamax cannot be saved: getWeights/],
    ['a step within a save', 'ERR_INVALID_ARGUMENT', /is being saved: await .*checkpoint\.save/],
    ['another optimizer', 'ERR_MODEL_MISMATCH', /its optimizer is Momentum, but here it is Adam\./],
    [
      'another shape',
      'ERR_MODEL_MISMATCH',
      /it has 'fit\/a' float32\[3, 4\], but here this is 'fit\/a' float32\[4, 3\]/,
    ],
    ['a variable more', 'ERR_MODEL_MISMATCH', /it has no 'fit\/more' float32\[2\]\. Variables are matched by name/],
    ['a variable less', 'ERR_MODEL_MISMATCH', /it has 'fit\/b' float32\[5\], which this model does not have/],
    [
      'another shape of what is not trained, on rank 1',
      'ERR_MODEL_MISMATCH',
      /^Rank 1: .*it has 'frozen\/b' float32\[2, 3\], but here this is 'frozen\/b' float32\[3, 2\]/,
    ],
    ['other names', 'ERR_MODEL_MISMATCH', /it has no 'fit\/c' float32\[5\], but 'fit\/b' float32\[5\] at its place/],
    [
      'layers that only seem to be the same',
      'ERR_MODEL_MISMATCH',
      /it has 'dense_Dense\d+\/kernel' float32\[3, 4\], but here this is 'dense_Dense\d+\/kernel' float32\[3, 5\]/,
    ],
    [
      'a variable less for Adam',
      'ERR_MODEL_MISMATCH',
      /Adam keeps its state by the order of the variables, and variable 0 was less\/a .* but is less\/b now/,
    ],
    [
      'a state of another shape',
      'ERR_MODEL_MISMATCH',
      /it has the shape \[4, 3\] for 'turned\/a', a variable of the shape \[3, 4\]/,
    ],
    [
      'a mean of other shapes',
      'ERR_MODEL_MISMATCH',
      /is 'mean\/a' float32\[2, 3\] on rank 0, but 'mean\/a' float32\[3, 2\] on rank 1/,
    ],
    [
      'one folder for two',
      'ERR_CHECKPOINT_IN_USE',
      /folder .*one has been taken over by another checkpoint of this program/,
    ],
    ['sparse becomes dense', 'ERR_CHECKPOINT', /momenta of their own for 'fit\/a' .* now share one/],
    ['a rank cannot write', 'ERR_CHECKPOINT', /^Rank 1: The checkpoint cannot write .*\/file/],
    ['model.fit stops', 'ERR_CHECKPOINT', /^Rank 1: The checkpoint cannot write .*\/file/],
  ])('%s', (name, code, message) => {
    for (const outcomes of byRank) {
      expect(outcomes[name]).toMatchObject({ code, message: expect.stringMatching(message) });
    }
  });

  test('a custom loop that finds nothing to resume begins with the same weights on all ranks', () => {
    for (const outcomes of byRank) expect(outcomes['nothing to resume']).toEqual({ value: [0, 'alike'] });
  });

  test('two checkpoints that are saved at once are saved one after the other', () => {
    for (const outcomes of byRank) expect(outcomes['two at once']).toEqual({ value: true });
  });

  test('a model that is built or loaded once more in a process has other names, and resumes bit for bit', () => {
    for (const outcomes of byRank) {
      for (const name of ['built twice', 'loaded twice']) {
        expect(outcomes[name]).toEqual({ value: { step: 4, isOtherName: true, isSame: [true, true] } });
      }
    }
  });

  test('a rank that cannot write may be only a warning in model.fit, and the ring goes on after an error', () => {
    for (const outcomes of byRank) {
      const expected = [
        expect.stringMatching(/^ERR_CHECKPOINT Rank 1: /),
        expect.stringMatching(/^ERR_CHECKPOINT Rank 1: /),
      ];
      expect(outcomes['model.fit goes on']).toEqual({ value: { epochs: 2, warnings: expected } });
      expect(outcomes['a damaged one']).toEqual({ value: ['ERR_CHECKPOINT_DAMAGED', 1, 1, 1] });
    }
  });

  test('no tensor is left by save and resume', () => {
    for (const outcomes of byRank) expect(outcomes['tensors']).toEqual({ value: [0, 0, 0] });
  });
});
