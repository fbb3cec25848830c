import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { launchFixture, runFixture } from './support';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'gradring-resume-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

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
  readonly counters: number[];
}

type LoopRuns = Record<string, LoopRun>;

const loop = (ranks: number, input: object) =>
  runFixture<LoopRuns>('checkpoint-loop.js', { ranks, input: { optimizers: ['momentum'], dir, ...input } });

describe('a custom loop that is resumed in other processes', () => {
  const optimizers = ['momentum', 'Nesterov', 'adam', 'RMSProp'];

  test('has the same bits as one that was never interrupted, in the midst of a warm-up, with float16 values', async () => {
    const whole = await loop(2, { optimizers, to: 40 });
    const first = await loop(2, { optimizers, to: 19, save: true }); // where a power of Adam's β is not the product
    const second = await loop(2, { optimizers, to: 40, resume: true });
    for (const name of optimizers) {
      for (const rank of [0, 1]) {
        const [uninterrupted, before, after] = [whole, first, second].map(run => run[rank]![name]!);
        expect(after!.at).toMatchObject({ step: 19, epoch: 0, batch: 0, skipped: [] });
        expect(after!.at!.path).toBe(path.join(dir, name, 'save-000001-step-19'));
        expect(after!.at!.state).toMatchObject({ note: 'ä' });
        expect(after!.resumedState).toEqual(before!.state);
        expect(after!.weights).toEqual(uninterrupted!.weights);
        expect(after!.state).toEqual(uninterrupted!.state);
        expect(after!.counters).toEqual(uninterrupted!.counters);
        expect(after!.densities).toEqual(uninterrupted!.densities.slice(19));
        expect(new Set(after!.densities).size).toBeGreaterThan(1); // the warm-up went on
      }
      // A check that means something: residuals of dense tensors are not zero, the ranks differ, and so do their own
      // weights.
      const [one, other] = first.map(run => run[name]!);
      expect(one!.state[`${name}/b/residual`]).toMatch(/[1-9a-f]/);
      expect(one!.state[`${name}/w/residual`]).not.toBe(other!.state[`${name}/w/residual`]);
      expect(one!.weights[4]).not.toBe(other!.weights[4]);
      expect(one!.weights.slice(0, 4)).toEqual(other!.weights.slice(0, 4));
    }
  });

  test('may have been saved before its first step, and after a resumption without a step', async () => {
    const whole = await loop(2, { to: 5 });
    await loop(2, { to: 0, save: true });
    await loop(2, { to: 2, resume: true, save: true });
    await loop(2, { to: 2, resume: true, save: true });
    const resumed = await loop(2, { to: 5, resume: true });
    expect(resumed.map(({ momentum }) => momentum!.state)).toEqual(whole.map(({ momentum }) => momentum!.state));
    expect(readdirSync(path.join(dir, 'momentum'))).toHaveLength(3);
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
  const fit = (input: object) => runFixture<Fit>('checkpoint-fit.js', { ranks: 2, input });

  test.each([
    { optimizerName: 'momentum', every: undefined, at: { step: 8, epoch: 2, batch: 0 } },
    { optimizerName: 'adam', every: undefined, at: { step: 8, epoch: 2, batch: 0 } },
    { optimizerName: 'momentum', every: 4, at: { step: 8, epoch: 2, batch: 0 } }, // at the end of an epoch, after its averages
    { optimizerName: 'momentum', every: 5, at: { step: 5, epoch: 1, batch: 1 } },
    { optimizerName: 'adam', every: 3, at: { step: 6, epoch: 1, batch: 2 } },
  ])('$optimizerName, every $every: the same bits, rates and densities', async ({ optimizerName, every, at }) => {
    const whole = await fit({ optimizerName, epochs: 4 });
    const first = await fit({ optimizerName, epochs: 2, dir, every });
    const second = await fit({ optimizerName, epochs: 4, dir, every });
    for (const rank of [0, 1]) {
      expect(first[rank]!.at).toEqual({ step: 0, epoch: 0, batch: 0, skipped: [] });
      expect(second[rank]!.at).toMatchObject(at);
      expect(second[rank]!.steps).toBe(16);
      expect(second[rank]!.rates).toEqual(whole[rank]!.rates.slice(at.step));
      expect(second[rank]!.densities).toEqual(whole[rank]!.densities.slice(at.step));
      expect(second[rank]!.hash).toBe(whole[rank]!.hash);
    }
    expect(readdirSync(dir)).toHaveLength(2);
  });
});

describe('a ring of another size', () => {
  const floatsOf = (hex: string) => {
    const bytes = Buffer.from(hex, 'hex');
    return Array.from(new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)));
  };
  /** Element by element, in double precision. */
  const mean = (all: number[][]) => all[0]!.map((_, i) => all.reduce((sum, each) => sum + each[i]!, 0) / all.length);
  const arrays = (runs: readonly LoopRuns[], when: 'state' | 'resumedState', name: string) =>
    runs.map(run => floatsOf(run['momentum']![when][`momentum/${name}`]!));

  test.each([
    { from: 4, to: 2 },
    { from: 4, to: 1 },
    { from: 3, to: 2 },
    { from: 2, to: 3 },
    { from: 1, to: 4 },
  ])('$from to $to, redistribute: what is still to be applied is preserved', async ({ from, to }) => {
    const saved = await loop(from, { to: 20, save: true });
    const resumed = await loop(to, { to: 25, resume: true, options: { residuals: 'redistribute' } });
    for (const name of ['w/residual', 'w/momentum', 'b/residual']) {
      const before = mean(arrays(saved, 'state', name));
      const after = mean(arrays(resumed, 'resumedState', name));
      before.forEach((value, i) => expect(after[i]).toBeCloseTo(value, 5));
      expect(before.some(value => Math.abs(value) > 1e-4)).toBe(true);
    }
    // What is the average's is everybody's.
    const [shared] = arrays(saved, 'state', 'b/momentum');
    for (const own of arrays(resumed, 'resumedState', 'b/momentum')) expect(own).toEqual(shared);
    const w = arrays(resumed, 'resumedState', 'w/residual');
    expect(w.map(values => values.some(value => value !== 0))).toEqual(w.map((_, rank) => rank < from));
    resumed.forEach(({ momentum }, rank) => {
      expect(momentum!.at!.step).toBe(20);
      expect(momentum!.at!.state === undefined).toBe(rank >= from);
      expect(momentum!.weights.slice(0, 4)).toEqual(resumed[0]!['momentum']!.weights.slice(0, 4));
    });
  });

  test('in a dense warm-up all momenta are the average’s', async () => {
    const compression = { warmUp: 'dense' };
    const saved = await loop(3, { to: 20, save: true, compression });
    const resumed = await loop(2, { to: 25, resume: true, compression, options: { residuals: 'redistribute' } });
    const [shared] = arrays(saved, 'state', 'w/momentum');
    for (const own of arrays(resumed, 'resumedState', 'w/momentum')) expect(own).toEqual(shared);
  });

  test('drop: residuals and own momenta begin at zero; without a policy it is an error that names the option', async () => {
    const saved = await loop(2, { to: 20, save: true });
    const resumed = await loop(3, { to: 22, resume: true, options: { residuals: 'drop' } });
    for (const name of ['w/residual', 'w/momentum', 'b/residual']) {
      for (const own of arrays(resumed, 'resumedState', name)) expect(own.every(value => value === 0)).toBe(true);
    }
    const [shared] = arrays(saved, 'state', 'b/momentum');
    for (const own of arrays(resumed, 'resumedState', 'b/momentum')) expect(own).toEqual(shared);
    expect(resumed[0]!['momentum']!.counters[0]).toBe(22);

    const input = { optimizers: ['momentum'], dir, to: 22, resume: true };
    const { exitCode, output } = await launchFixture('checkpoint-loop.js', { ranks: 3, input });
    expect(exitCode).not.toBe(0);
    expect(output).toMatch(/saved by 2 ranks, and this ring has 3.*residuals: 'redistribute'.*'drop'/);
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
    ['every', 'ERR_INVALID_ARGUMENT', /every is 0; it must be a whole number from 1 on/],
    ['keep', 'ERR_INVALID_ARGUMENT', /keep is 0;/],
    ['state', 'ERR_INVALID_ARGUMENT', /state must be a function/],
    ['residuals', 'ERR_INVALID_ARGUMENT', /residuals is 'sum'; it must be 'redistribute' or 'drop'/],
    ['onDamage', 'ERR_INVALID_ARGUMENT', /onDamage is 'ignore'/],
    ['onFailure', 'ERR_INVALID_ARGUMENT', /onFailure is 'ignore'/],
    ['not wrapped', 'ERR_INVALID_ARGUMENT', /compiled with ring\.wrap/],
    ['trained variable left out', 'ERR_INVALID_ARGUMENT', /trains 'left-out\/b', which is not among the variables/],
    ['adamax', 'ERR_INVALID_ARGUMENT', /state of Adamax cannot be saved: getWeights/],
    ['a step within a save', 'ERR_INVALID_ARGUMENT', /is being saved: await .*checkpoint\.save/],
    ['another optimizer', 'ERR_MODEL_MISMATCH', /the optimizer is Momentum in the checkpoint, but Adam here/],
    ['another shape', 'ERR_MODEL_MISMATCH', /'fit\/a' is F32\[3, 4\] in the checkpoint, but F32\[4, 3\] here/],
    ['a variable more', 'ERR_MODEL_MISMATCH', /the checkpoint has no 'fit\/more' float32\[2\]/],
    ['a variable less', 'ERR_MODEL_MISMATCH', /the checkpoint has a 'fit\/b', and this model has none/],
    ['sparse becomes dense', 'ERR_CHECKPOINT', /'fit\/a' was compressed .* now travels whole/],
    ['a rank cannot write', 'ERR_CHECKPOINT', /^Rank 1: The checkpoint cannot write .*\/file/],
    ['model.fit stops', 'ERR_CHECKPOINT', /^Rank 1: The checkpoint cannot write .*\/file/],
  ])('%s', (name, code, message) => {
    for (const outcomes of byRank) {
      expect(outcomes[name]).toMatchObject({ code, message: expect.stringMatching(message) });
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
