import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { declarationOf, workloadPlans } from '../../src/study/declaration';
import { TrainingLog, type LoggedTraining } from '../../src/study/training-log';
import { keyOf, pairedTrainings, tuningTrainings } from '../../src/study/trainings';

const SIZE = { ranks: 4, quick: false };
const plans = workloadPlans(false);
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
    expect(names).toEqual(expect.arrayContaining(['dense, other rounding', mustFail, 'DGC']));
    if (plan.name !== 'long-digits') expect(names).toContain(sameMethod);
  });

  test('a learning rate is tried on seeds that do not count, equally often for each method', () => {
    const tuning = tuningTrainings(plan);
    for (const { seed } of tuning) expect(plan.seeds).not.toContain(seed);
    const counts = new Map<string, number>();
    for (const { method } of tuning) counts.set(method.name, (counts.get(method.name) ?? 0) + 1);
    for (const count of counts.values()) expect(count).toBe(plan.learningRates.length * plan.tuningSeeds.length);
    expect(counts.size > 0).toBe(plan.tuningSeeds.length > 0);
  });

  test('each training has a key of its own', () => {
    const all = [...tuningTrainings(plan), ...paired];
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
    const [, , best] = plan.learningRates;
    const better = plan.margin.better === 'higher' ? 0.9 : 0.1;
    const tuning = plan.learningRates.map(learningRate => {
      const score = learningRate === best ? better : 0.5;
      return { ...training({ method: 'DGC', isTuning: true, learningRate, seed: 101 }), score, logLoss: 1 };
    });
    const middle = plan.learningRates[Math.floor(plan.learningRates.length / 2)];
    for (const { method, learningRate } of pairedTrainings(plan, tuning)) {
      const expected = (method.ratesOf ?? method.name) === 'DGC' ? best : middle;
      expect([method.name, learningRate]).toEqual([method.name, expected]);
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
