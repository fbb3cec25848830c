import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { declarationOf, workloadPlans } from '../../src/study/declaration';
import { TrainingLog, type LoggedTraining } from '../../src/study/training-log';
import { keyOf, pairedTrainings, type PlannedTraining, ratesToTry, stateOf } from '../../src/study/trainings';

const SIZE = { ranks: 4, quick: false };
const plans = workloadPlans(false);
const WHAT_IT_IS_FOR: Record<string, string> = { 'language-16': 'DGC, scatter', 'language-local': 'local steps' };
const training = (over: Partial<LoggedTraining>): LoggedTraining => ({
  ...{ workload: 'digits', method: 'dense', isTuning: false, options: {}, learningRate: 0.1, seed: 1, fold: 0 },
  ...{ score: 0.9, logLoss: 0.1, bytesSentPerRank: 1, denseBytesPerRank: 1, steps: 1, seconds: 1, examples: [1] },
  ...{
    curve: { step: [], loss: [], error: [], bytes: [], seconds: [] },
    data: 'digits',
    parameters: 5,
    program: '0123456789ab',
  },
  ...over,
});

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'gradring-study-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe.each(plans)('the plan of $name', plan => {
  const paired = pairedTrainings(plan, []);
  const { baseline, controls } = declarationOf(plans, false);

  test('every training has its pair without compression, of the same seed and fold', () => {
    const pairs = new Set(
      paired.filter(({ method }) => method.name === baseline).map(({ seed, fold }) => `${seed} ${fold}`),
    );
    expect(pairs.size).toBe(plan.seeds.length * plan.folds.length);
    for (const { seed, fold } of paired) expect(pairs).toContain(`${seed} ${fold}`);
    const names = paired.map(({ method }) => method.name);
    const { sameMethod, mustFail } = controls[plan.name]!;
    expect(names).toEqual(expect.arrayContaining([sameMethod, mustFail, WHAT_IT_IS_FOR[plan.name] ?? 'DGC']));
  });

  test('a learning rate is tried where nothing counts, in the same way for each method', () => {
    const { next } = stateOf(plan, () => undefined);
    const tried = next.filter(({ isTuning }) => isTuning);
    expect(tried.length > 0).toBe(plan.tuningSeeds.length > 0);
    const byMethod = new Map<string, string[]>();
    for (const { method, learningRate, seed, fold } of tried) {
      expect(plan.seeds).not.toContain(seed);
      if (plan.name === 'digits') expect(plan.folds).not.toContain(fold);
      byMethod.set(method.name, [...(byMethod.get(method.name) ?? []), `${learningRate} ${seed} ${fold}`]);
    }
    for (const one of byMethod.values()) expect(one).toEqual([...byMethod.values()][0]);
  });

  test('each training has a key of its own', () => {
    const all = [...stateOf(plan, () => undefined).next.filter(({ isTuning }) => isTuning), ...paired];
    expect(new Set(all.map(each => keyOf(each, SIZE))).size).toBe(all.length);
    expect(keyOf(all[0]!, { ...SIZE, quick: true })).not.toBe(keyOf(all[0]!, SIZE));
  });

  test('a compressor that was changed has another key, one that was moved the same', () => {
    const own = (module: string, moduleHash: string) => {
      const method = { name: 'own', method: 'customCompression', module, moduleHash, options: {} };
      return keyOf({ ...paired[0]!, method }, SIZE);
    };
    expect(own('/a/own.js', '1')).not.toBe(own('/a/own.js', '2'));
    expect(own('/a/own.js', '1')).toBe(own('/b/own.js', '1'));
  });

  test('a method takes the rate that was best for it, or for the method that it refers to', () => {
    const rates = ratesToTry(plan.learningRate, []);
    const better = plan.margin.better === 'higher' ? 0.9 : 0.1;
    const tuning = rates.map((learningRate, i) => {
      const score = i === 2 ? better : 0.5;
      return { ...training({ method: 'DGC', isTuning: true, learningRate, seed: 101 }), score, logLoss: 1 };
    });
    for (const { method, learningRate } of pairedTrainings(plan, tuning)) {
      const name = method.ratesOf ?? method.name;
      const expected = name === 'DGC' ? rates[2] : (plan.learningRates?.[name] ?? plan.learningRate);
      expect([method.name, learningRate]).toEqual([method.name, expected]);
    }
  });
});

describe('the search for a learning rate', () => {
  /** All rates that are tried, if the best one is that with the lowest of these costs. */
  const searched = (first: number, cost: (rate: number) => number) => {
    const tried: number[] = [];
    for (;;) {
      const best = Math.min(...tried.map(cost));
      const rows = tried.map(learningRate => ({ learningRate, best: Number.isFinite(best) && cost(learningRate) === best })); // prettier-ignore
      const next = ratesToTry(first, rows);
      if (next.length === 0) return tried;
      tried.push(...next);
    }
  };
  const distance = (goal: number) => (rate: number) => Math.abs(Math.log2(rate / goal));

  test.each([
    ['near the first', 20, distance(19), [14.14, 20, 28.28]],
    ['far above', 20, distance(75), [14.14, 20, 28.28, 40, 56.57, 80, 113.1]],
    ['far below', 0.05, distance(0.02), [0.03536, 0.05, 0.07071, 0.025, 0.01768, 0.0125]],
    ['further than eight rates reach', 1, distance(1e-9), [0.7071, 1, 1.414, 0.5, 0.3536, 0.25, 0.1768, 0.125]],
    ['below those that diverge', 1, (rate: number) => (rate > 0.4 ? Infinity : rate > 0.3 ? 1 : 2), [0.7071, 1, 1.414, 0.5, 0.3536, 0.25]], // prettier-ignore
  ])('if the best is %s', (_, first, cost, expected) => {
    expect(searched(first, cost)).toEqual(expected);
  });

  test('goes on where it was interrupted, and the trainings that count follow', () => {
    const plan = plans.find(({ name }) => name === 'language')!;
    const goals = new Map(plan.methods.map(({ name }, i) => [name, plan.learningRate * 2 ** (i - 3)]));
    const log = new Map<string, LoggedTraining>();
    const find = (planned: PlannedTraining) => log.get(keyOf(planned, SIZE));
    const runSome = (count: number) => {
      const { next, total, tuned, paired } = stateOf(plan, find);
      expect(tuned.length + paired.length).toBe(log.size);
      expect(total).toBeGreaterThanOrEqual(log.size + next.length);
      for (const planned of next.slice(0, count)) {
        const { method, isTuning, learningRate, seed, fold } = planned;
        expect(log.has(keyOf(planned, SIZE))).toBe(false);
        const score = distance(goals.get(method.name)!)(learningRate);
        log.set(keyOf(planned, SIZE), training({ workload: 'language', method: method.name, isTuning, learningRate, seed, fold, score })); // prettier-ignore
      }
      return next.length;
    };
    while (runSome(25) > 0);
    const { tuned, paired, total } = stateOf(plan, find);
    expect([tuned.length + paired.length, paired.length]).toEqual([total, plan.seeds.length * plan.methods.length]);
    for (const { method, learningRate } of paired) {
      const { ratesOf = method } = plan.methods.find(({ name }) => name === method)!;
      const goal = Math.log2(goals.get(ratesOf)! / plan.learningRate);
      const reached = Math.max(-3, Math.min(3, goal)); // by eight rates
      expect(Math.abs(Math.log2(learningRate / plan.learningRate) - reached)).toBeLessThan(0.51);
    }
  });
});

describe('the log', () => {
  const inFolder = (name: string) => path.join(folder, name);
  const refusal = (words: RegExp) =>
    expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(words) as string });

  test.each([0, 1, 2])(
    'has the %i trainings that were written before a line that was cut off, however often',
    count => {
      const file = inFolder('log');
      const log = new TrainingLog(file);
      const written = [1, 2].slice(0, count).map(seed => training({ seed, score: null }));
      for (const each of written) log.add(String(each.seed), each);
      for (let interrupted = 0; interrupted < 3; interrupted++) {
        appendFileSync(file, '{"key":"3","trai');
        const again = new TrainingLog(file);
        expect(again).toHaveLength(count);
        for (const each of written) expect(again.get(String(each.seed))).toEqual(each);
      }
      new TrainingLog(file).add('3', training({ seed: 3 }));
      expect(new TrainingLog(file).get('3')).toEqual(training({ seed: 3 }));
    },
  );

  test('a workload goes on as it was declared, and in no other way', () => {
    const file = inFolder('log');
    const terms = { margin: { worse: 0.003, of: undefined }, seeds: [1, 2] };
    const log = new TrainingLog(file);
    log.declare('digits', terms);
    const { startedAt } = log;
    const again = new TrainingLog(file);
    again.declare('digits', terms);
    again.declare('speech', { seeds: [3] });
    expect(again.startedAt).toBe(startedAt);
    expect(() => new TrainingLog(file).declare('digits', { ...terms, margin: { worse: 0.005 } })).toThrow(
      refusal(/digits that were declared on 2.*--restart/),
    );
    expect(() => again.declare('speech', { seeds: [4] })).toThrow(refusal(/speech/));
  });

  test.each(['name,score\nx,1\n', 'a text', '{"key":"1"}\n'])('another file is refused: %j', text => {
    writeFileSync(inFolder('other'), text);
    expect(() => new TrainingLog(inFolder('other'))).toThrow(refusal(/is no log of a study/));
    expect(readFileSync(inFolder('other'), 'utf8')).toBe(text);
  });
});
