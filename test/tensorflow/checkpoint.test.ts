import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { StepStatistics } from '../../src/tensorflow/optimizer-steps';
import { runFixture } from './support';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'gradring-resume-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

interface Position {
  readonly step: number;
  readonly epoch: number;
  readonly batch: number;
  readonly state?: unknown;
  readonly path?: string;
  readonly skipped: string[];
}

interface LoopRun {
  readonly at?: Position;
  readonly densities: number[];
  /** Tensors as hexadecimal bytes. */
  readonly weights: string[];
  readonly resumedState: Record<string, string>;
  readonly state: Record<string, string>;
  readonly statistics: StepStatistics;
  readonly counters: number[];
}

/** A loop of checkpoint-loop.js. */
interface Loop {
  /** Of its variables, and of the optimizer, unless that has another one. */
  readonly name: string;
  readonly optimizer?: string;
  /** Where its checkpoints are, under the folder of this test. Default: in one of its name. */
  readonly folder?: string;
  readonly to: number;
  readonly save?: true;
  readonly resume?: true;
  readonly options?: object;
  /** The name of another compression than dgc. */
  readonly compressor?: string;
  readonly compression?: object;
}

interface Outcome<T> {
  readonly value?: T;
  readonly message?: string;
}

/** Runs loops one after the other in the same processes; how each ended, by loop and rank. */
async function outcomesOf(ranks: number, loops: readonly Loop[]): Promise<Outcome<LoopRun>[][]> {
  const input = { loops: loops.map(({ folder, ...loop }) => ({ ...loop, dir: path.join(dir, folder ?? loop.name) })) };
  const byRank = await runFixture<Outcome<LoopRun>[]>('checkpoint-loop.js', { ranks, input });
  return loops.map((_, i) => byRank.map(outcomes => outcomes[i]!));
}

/** Of loops that must come to their end: their results, by loop and rank. */
async function runLoops(ranks: number, loops: readonly Loop[]): Promise<LoopRun[][]> {
  return (await outcomesOf(ranks, loops)).map(resultsOf);
}

function resultsOf(outcomes: readonly Outcome<LoopRun>[]): LoopRun[] {
  return outcomes.map(({ value, ...error }) => {
    if (value === undefined) throw new Error(`A loop failed: ${JSON.stringify(error)}`);
    return value;
  });
}

describe('a custom loop that is resumed in other processes', () => {
  const optimizers = ['momentum', 'Nesterov', 'adam', 'RMSProp'];
  const compressors = ['gradientDropping', 'oneBit', 'ternGrad', 'qsgd', 'powerSgd', 'customCompression'];
  const loops = [
    ...optimizers.map(name => ({ name })),
    ...compressors.map(compressor => ({ name: compressor, optimizer: 'momentum', compressor })),
  ];
  const early = { name: 'early', optimizer: 'momentum' };
  let [whole, first, second]: LoopRun[][][] = [];
  let [earlyWhole, earlyResumed]: LoopRun[][] = [];
  beforeAll(async () => {
    const all = await runLoops(2, [
      ...loops.map(loop => ({ ...loop, to: 40 })),
      ...loops.map(loop => ({ ...loop, to: 19, save: true as const })), // where a power of Adam's β is not the product
      { ...early, to: 5 },
      { ...early, to: 0, save: true },
    ]);
    const resumed = await runLoops(2, [
      ...loops.map(loop => ({ ...loop, to: 40, resume: true as const })),
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
    { optimizerName: 'momentum', every: undefined, at: { step: 8, epoch: 2, batch: 0 } },
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

describe('a ring of another size', () => {
  const floatsOf = (hex: string) => {
    const bytes = Buffer.from(hex, 'hex');
    return Array.from(new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)));
  };
  /** Element by element, in double precision. */
  const mean = (all: number[][]) => all[0]!.map((_, i) => all.reduce((sum, each) => sum + each[i]!, 0) / all.length);
  const arrays = (runs: readonly LoopRun[], when: 'state' | 'resumedState', name: string) =>
    runs.map(run => floatsOf(run[when][`momentum/${name}`]!));

  const SIZES = [1, 2, 3, 4] as const;
  const redistribute = { options: { residuals: 'redistribute' } };
  const loop = { name: 'momentum', to: 25, resume: true } as const;
  const dense = { compression: { warmUp: 'dense' }, folder: 'dense' };
  const powerSgd = { name: 'powerSgd', optimizer: 'momentum', compressor: 'powerSgd', folder: 'resized' };
  /** What rings of these sizes resume. */
  const RESUMED: Record<(typeof SIZES)[number], Record<string, Loop>> = {
    1: { 'of 4': { ...loop, ...redistribute, folder: 'of-4' } },
    2: {
      'of 4': { ...loop, ...redistribute, folder: 'of-4' },
      'of 3': { ...loop, ...redistribute, folder: 'of-3' },
      dense: { ...loop, ...redistribute, ...dense },
    },
    3: {
      'of 2': { ...loop, ...redistribute, folder: 'of-2' },
      dropped: { ...loop, to: 22, options: { residuals: 'drop' }, folder: 'of-2' },
      'no policy': { ...loop, to: 22, folder: 'of-2' },
      powerSgd: { ...loop, ...redistribute, ...powerSgd },
    },
    4: { 'of 1': { ...loop, ...redistribute, folder: 'of-1' } },
  };

  const saved: Record<string, LoopRun[]> = {};
  const resumed: Record<number, Record<string, Outcome<LoopRun>[]>> = {};
  beforeAll(async () => {
    for (const size of SIZES) {
      const save = { name: 'momentum', to: 20, save: true } as const;
      const loops: Loop[] = [{ ...save, folder: `of-${size}` }];
      if (size === 2) loops.push({ ...save, ...powerSgd });
      if (size === 3) loops.push({ ...save, ...dense });
      const results = await runLoops(size, loops);
      loops.forEach(({ folder }, i) => (saved[folder!] = results[i]!));
    }
    for (const size of SIZES) {
      const outcomes = await outcomesOf(size, Object.values(RESUMED[size]));
      resumed[size] = Object.fromEntries(Object.keys(RESUMED[size]).map((name, i) => [name, outcomes[i]!]));
    }
  }, 120_000);

  test.each([
    { from: 4, to: 2 },
    { from: 4, to: 1 },
    { from: 3, to: 2 },
    { from: 2, to: 3 },
    { from: 1, to: 4 },
  ])('$from to $to, redistribute: what is still to be applied is preserved', ({ from, to }) => {
    const [before, after] = [saved[`of-${from}`]!, resultsOf(resumed[to]![`of ${from}`]!)];
    for (const name of ['w/residual', 'w/momentum', 'b/residual']) {
      const means = [mean(arrays(before, 'state', name)), mean(arrays(after, 'resumedState', name))] as const;
      means[0].forEach((value, i) => expect(means[1][i]).toBeCloseTo(value, 5));
      expect(means[0].some(value => Math.abs(value) > 1e-4)).toBe(true);
    }
    // The momentum of the average is the same on all ranks.
    const [shared] = arrays(before, 'state', 'b/momentum');
    for (const own of arrays(after, 'resumedState', 'b/momentum')) expect(own).toEqual(shared);
    const w = arrays(after, 'resumedState', 'w/residual');
    expect(w.map(values => values.some(value => value !== 0))).toEqual(w.map((_, rank) => rank < from));
    after.forEach(({ at, weights }, rank) => {
      expect(at!.step).toBe(20);
      expect(at!.state === undefined).toBe(rank >= from);
      expect(weights.slice(0, 4)).toEqual(after[0]!.weights.slice(0, 4));
    });
  });

  test('PowerSGD goes on from the same matrix, on a new rank too, and nothing that it keeps is lost', () => {
    const [before, after] = [saved['resized']!, resultsOf(resumed[3]!['powerSgd']!)];
    const shared = before[0]!.state['powerSgd/w/shared']!;
    expect(shared).toMatch(/[1-9a-f]/);
    expect(after.map(({ resumedState }) => resumedState['powerSgd/w/shared'])).toEqual([shared, shared, shared]);
    const residuals = (runs: readonly LoopRun[], when: 'state' | 'resumedState') =>
      mean(runs.map(run => floatsOf(run[when]['powerSgd/w/residual']!)));
    const kept = residuals(before, 'state');
    residuals(after, 'resumedState').forEach((value, i) => expect(value).toBeCloseTo(kept[i]!, 5));
    expect(kept.some(value => Math.abs(value) > 1e-4)).toBe(true);
  });

  test('in a dense warm-up all momenta are the average’s', () => {
    const [shared] = arrays(saved['dense']!, 'state', 'w/momentum');
    for (const own of arrays(resultsOf(resumed[2]!['dense']!), 'resumedState', 'w/momentum'))
      expect(own).toEqual(shared);
  });

  test('drop: residuals and own momenta begin at zero', () => {
    const after = resultsOf(resumed[3]!['dropped']!);
    for (const name of ['w/residual', 'w/momentum', 'b/residual']) {
      for (const own of arrays(after, 'resumedState', name)) expect(own.every(value => value === 0)).toBe(true);
    }
    const [shared] = arrays(saved['of-2']!, 'state', 'b/momentum');
    for (const own of arrays(after, 'resumedState', 'b/momentum')) expect(own).toEqual(shared);
    expect(after[0]!.counters[0]).toBe(22);
  });

  test('without a policy it is an error that names the option', () => {
    for (const { message } of resumed[3]!['no policy']!) {
      expect(message).toMatch(/saved by 2 ranks, and this ring has 3.*residuals: 'redistribute'.*'drop'/);
    }
  });
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
