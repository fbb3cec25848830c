import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { type LoopRun, type Position, runLoops } from './checkpoint-loops';
import { runFixture } from './support';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'gradring-resume-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe('a custom loop that is resumed in other processes', () => {
  const optimizers = ['momentum', 'Nesterov', 'adam', 'RMSProp'];
  const compressors = ['gradientDropping', 'oneBit', 'ternGrad', 'qsgd', 'powerSgd', 'lowRank', 'customCompression'];
  const loops = [
    ...optimizers.map(name => ({ name })),
    ...compressors.map(compressor => ({ name: compressor, optimizer: 'momentum', compressor })),
  ];
  const END = 23; // in the third stage of the warm-up
  const early = { name: 'early', optimizer: 'momentum' };
  let [whole, first, second]: LoopRun[][][] = [];
  let [earlyWhole, earlyResumed]: LoopRun[][] = [];
  beforeAll(async () => {
    const all = await runLoops(dir, 2, [
      ...loops.map(loop => ({ ...loop, to: END })),
      ...loops.map(loop => ({ ...loop, to: 19, save: true as const })), // where a power of Adam's β is not the product
      { ...early, to: 5 },
      { ...early, to: 0, save: true },
    ]);
    const resumed = await runLoops(dir, 2, [
      ...loops.map(loop => ({ ...loop, to: END, resume: true as const })),
      { ...early, to: 2, resume: true, save: true },
      { ...early, to: 2, resume: true, save: true },
      { ...early, to: 5, resume: true },
    ]);
    const count = loops.length;
    [whole, first, second] = [all.slice(0, count), all.slice(count, 2 * count), resumed.slice(0, count)];
    [earlyWhole, earlyResumed] = [all[2 * count], resumed[count + 2]];
  });

  test.each(optimizers.map((name, i) => [name, i] as const))(
    '%s has the same bits as if it had never been interrupted, in the midst of a warm-up, with float16 values',
    (name, i) => {
      for (const rank of [0, 1]) {
        const [uninterrupted, before, after] = [whole, first, second].map(runs => runs![i]![rank]!);
        expect(after!.at).toMatchObject({ step: 19, epoch: 0, batch: 0, skipped: [] });
        expect(after!.at!.path).toBe(path.join(dir, name, 'save-000001-step-19'));
        expect(after!.at!.state).toMatchObject({ note: 'ä' });
        expect(after!.resumedState).toEqual(before!.state);
        expect(after!.weights).toEqual(uninterrupted!.weights);
        expect(after!.state).toEqual(uninterrupted!.state);
        expect(after!.counters).toEqual(uninterrupted!.counters);
        for (const field of ['steps', 'skippedSteps', 'bytesSent', 'denseBytes'] as const) {
          const [all, ...parts] = [uninterrupted, before, after].map(run => run!.statistics[field]);
          expect([field, parts[0]! + parts[1]!]).toEqual([field, all]); // each process counts what it has done
        }
        expect(after!.densities).toEqual(uninterrupted!.densities.slice(19));
        expect(new Set(after!.densities).size).toBeGreaterThan(1); // the warm-up went on
      }
      // A check that means something: residuals of dense tensors are not zero, the ranks differ, and so do their own
      // weights.
      const [one, other] = first![i]!;
      expect(one!.state[`${name}/b/residual`]).toMatch(/[1-9a-f]/);
      expect(one!.state[`${name}/w/residual`]).not.toBe(other!.state[`${name}/w/residual`]);
      expect(one!.weights[4]).not.toBe(other!.weights[4]);
      expect(one!.weights.slice(0, 4)).toEqual(other!.weights.slice(0, 4));
    },
  );

  test.each(compressors.map((name, i) => [name, optimizers.length + i] as const))(
    '%s() has the same bits as if it had never been interrupted',
    (name, i) => {
      for (const rank of [0, 1]) {
        const [uninterrupted, before, after] = [whole, first, second].map(runs => runs![i]![rank]!);
        expect(after!.at).toMatchObject({ step: 19 });
        expect(after!.resumedState).toEqual(before!.state);
        expect(after!.weights).toEqual(uninterrupted!.weights);
        expect(after!.state).toEqual(uninterrupted!.state);
      }
      const [one, other] = first![i]!;
      const part = (state: Record<string, string>, what: string) => state[`${name}/w/${what}`]!;
      expect(part(one!.state, 'momentum')).toBe(part(other!.state, 'momentum'));
      expect(part(one!.state, 'shared')).toBe(part(other!.state, 'shared'));
      expect(part(one!.state, 'shared') !== '').toBe(name === 'powerSgd');
      const keeps = !['ternGrad', 'qsgd', 'customCompression'].includes(name);
      expect(part(one!.state, 'residual') !== part(other!.state, 'residual')).toBe(keeps);
    },
  );

  test('may have been saved before its first step, and after a resumption without a step', () => {
    expect(earlyResumed!.map(({ state }) => state)).toEqual(earlyWhole!.map(({ state }) => state));
    expect(readdirSync(path.join(dir, 'early'))).toHaveLength(3);
  });
});

describe('model.fit that is resumed in other processes', () => {
  interface Fit {
    readonly at?: Position;
    readonly rates: number[];
    readonly densities: number[];
    readonly hash: string;
    readonly steps: number;
  }
  const CASES = [
    { optimizerName: 'adam', every: undefined, at: { step: 8, epoch: 2, batch: 0 } },
    { optimizerName: 'momentum', every: 4, at: { step: 8, epoch: 2, batch: 0 } }, // at the end of an epoch, after its averages
    { optimizerName: 'momentum', every: 5, at: { step: 5, epoch: 1, batch: 1 } },
    { optimizerName: 'adam', every: 3, at: { step: 6, epoch: 1, batch: 2 } },
  ].map((each, i) => ({ ...each, i, name: `fit-${i}` }));
  const NAMES = ['momentum', 'adam'];

  let wholes: readonly Fit[][];
  let firsts: readonly Fit[][];
  let seconds: readonly Fit[][];
  beforeAll(async () => {
    const run = async (fits: object[]) => {
      const byRank = await runFixture<Fit[]>('checkpoint-fit.js', { ranks: 2, input: { fits } });
      return fits.map((_, i) => byRank.map(all => all[i]!));
    };
    const untilEpoch = (epochs: number) =>
      CASES.map(({ name, optimizerName, every }) => ({
        name,
        optimizerName,
        every,
        epochs,
        dir: path.join(dir, name),
      }));
    const uninterrupted = NAMES.map(optimizerName => ({ name: optimizerName, optimizerName, epochs: 4 }));
    const results = await run([...uninterrupted, ...untilEpoch(2)]);
    [wholes, firsts] = [results.slice(0, NAMES.length), results.slice(NAMES.length)];
    seconds = await run(untilEpoch(4));
  });

  test.each(CASES)(
    '$optimizerName, every $every: the same bits, rates and densities',
    ({ name, optimizerName, at, i }) => {
      const whole = wholes[NAMES.indexOf(optimizerName)]!;
      const [first, second] = [firsts[i]!, seconds[i]!];
      for (const rank of [0, 1]) {
        expect(first[rank]!.at).toEqual({ step: 0, epoch: 0, batch: 0, skipped: [] });
        expect(second[rank]!.at).toMatchObject(at);
        expect(second[rank]!.steps).toBe(16);
        expect(second[rank]!.rates).toEqual(whole[rank]!.rates.slice(at.step));
        expect(second[rank]!.densities).toEqual(whole[rank]!.densities.slice(at.step));
        expect(second[rank]!.hash).toBe(whole[rank]!.hash);
      }
      expect(readdirSync(path.join(dir, name))).toHaveLength(2);
    },
  );
});

/** Runs a fixture as a program without a launcher, and returns what it prints. */
async function runAlone(name: string, ...args: string[]): Promise<unknown> {
  const program = path.join(__dirname, 'fixtures', name);
  return JSON.parse((await promisify(execFile)(process.execPath, [program, ...args])).stdout);
}

test('a relative path means the folder in which it was given: checkpoints, models, timelines', async () => {
  const root = path.join(dir, 'root');
  for (const name of ['start', 'elsewhere']) mkdirSync(path.join(root, name), { recursive: true });
  expect(await runAlone('working-folder.js', root)).toEqual({
    start: ['checkpoints', 'model', 'trace'],
    elsewhere: [],
    saves: ['save-000001-step-1', 'save-000002-step-2'],
    step: 2,
  });
});

describe('misuse, and what does not fit', () => {
  type Outcome = { code?: string; message?: string; value?: unknown; details?: { rank?: number } };
  let byRank: readonly Record<string, Outcome>[];
  beforeAll(async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'gradring-resume-'));
    writeFileSync(path.join(folder, 'file'), '');
    byRank = await runFixture('checkpoint-scenarios.js', { ranks: 2, input: { dir: folder } });
    rmSync(folder, { recursive: true });
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
