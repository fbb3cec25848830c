import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { CheckpointRuns, type Loop, type LoopRun, type Position, resultsOf } from './checkpoint-runs';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'gradring-resume-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** All runs of a test file in the same processes, and then what other processes resume. */
export const firstRuns = new CheckpointRuns(2, () => dir);
const resumedRuns = new CheckpointRuns(2, () => dir);

const SCATTER = { optimizer: 'momentum', compression: { route: 'scatter' } };

/**
 * Declares tests of custom loops that are resumed in other processes, with these optimizers and compressors. `scatter`
 * is momentum whose entries take the reduce-scatter.
 */
export function testResumedLoops(optimizers: readonly string[], compressors: readonly string[]): void {
  const loops = [
    ...optimizers.map(name => ({ name, ...(name === 'scatter' && SCATTER) })),
    ...compressors.map(compressor => ({ name: compressor, optimizer: 'momentum', compressor })),
  ];
  const END = 23; // in the third stage of the warm-up
  const early = { name: 'early', optimizer: 'momentum' };
  const inFolders = (runs: readonly Loop[]) => runs.map(run => ({ ...run, folder: run.name }));
  const runAll = firstRuns.add<LoopRun>(
    'loop',
    inFolders([
      ...loops.map(loop => ({ ...loop, to: END })),
      ...loops.map(loop => ({ ...loop, to: 19, save: true as const })), // where a power of Adam's β is not the product
      { ...early, to: 5 },
      { ...early, to: 0, save: true },
    ]),
  );
  const resumeAll = resumedRuns.add<LoopRun>(
    'loop',
    inFolders([
      ...loops.map(loop => ({ ...loop, to: END, resume: true as const })),
      { ...early, to: 2, resume: true, save: true },
      { ...early, to: 2, resume: true, save: true },
      { ...early, to: 5, resume: true },
    ]),
  );
  let [whole, first, second]: LoopRun[][][] = [];
  let [earlyWhole, earlyResumed]: LoopRun[][] = [];
  beforeAll(async () => {
    const all = (await runAll()).map(resultsOf);
    const resumed = (await resumeAll()).map(resultsOf);
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
      // (Beside a reduce-scatter, these take the dense ring, which rounds nothing.)
      expect(/[1-9a-f]/.test(one!.state[`${name}/b/residual`]!)).toBe(name !== 'scatter');
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
}

interface ResumedFit {
  readonly optimizerName: string;
  readonly every: number | undefined;
  /** Where the other processes resume it. */
  readonly at: { readonly step: number; readonly epoch: number; readonly batch: number };
}

/** Declares tests of model.fit that is resumed in other processes. */
export function testResumedFits(cases: readonly ResumedFit[]): void {
  interface Fit {
    readonly at?: Position;
    readonly rates: number[];
    readonly densities: number[];
    readonly hash: string;
    readonly steps: number;
  }
  const CASES = cases.map((each, i) => ({ ...each, i, name: `fit-${i}` }));
  const NAMES = [...new Set(cases.map(({ optimizerName }) => optimizerName))];

  const uninterrupted = NAMES.map(optimizerName => ({ name: optimizerName, optimizerName, epochs: 4 }));
  const untilEpoch = (epochs: number) =>
    CASES.map(({ name, optimizerName, every }) => ({ name, folder: name, optimizerName, every, epochs }));
  const runAll = firstRuns.add<Fit>('fit', [...uninterrupted, ...untilEpoch(2)]);
  const resumeAll = resumedRuns.add<Fit>('fit', untilEpoch(4));

  let wholes: readonly Fit[][];
  let firsts: readonly Fit[][];
  let seconds: readonly Fit[][];
  beforeAll(async () => {
    const results = (await runAll()).map(resultsOf);
    [wholes, firsts] = [results.slice(0, NAMES.length), results.slice(NAMES.length)];
    seconds = (await resumeAll()).map(resultsOf);
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
}
