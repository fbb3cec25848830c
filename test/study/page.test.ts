import { curvesOf, meanCurve } from '../../src/study/curves';
import { studyPage } from '../../src/study/page';
import type { StudyResults } from '../../src/study/results';
import { summarise, type Training } from '../../src/study/summarise';
import { intervalText, ratioText, wordsOf } from '../../src/study/words';
import { FACTS, generatedTrainings } from './generated-study';

const resultsOf = (trainings: readonly Training[]): StudyResults =>
  JSON.parse(JSON.stringify(summarise(trainings, FACTS))) as StudyResults;
const TRAININGS = generatedTrainings(4, 2);
const RESULTS = resultsOf(TRAININGS);

/** The page without its scripts. */
const shownOf = (results: StudyResults): string => /^.*<\/main>/s.exec(studyPage(results))![0];

test('the page says what was declared, and what the study does not show', () => {
  const page = shownOf(RESULTS);
  expect(page).toContain('<td>at most 0.3 points below that of dense</td>');
  expect(page).toContain('<td>at most 1 % above that of dense</td>');
  expect(page).toContain('draws the test examples 300 times');
  expect(page).toContain('<li>No ImageNet and no LibriSpeech: the models are small.</li>');
  expect(page).toContain('<dd>Imaginary Processor &lt;2&gt;, 2 cores, 8 GiB of memory</dd>');
  expect(page).toContain('<dd>2020-02-02 03:04:05 UTC to 2020-02-03 04:05:06 UTC</dd>');
  expect(page).toContain('<summary>Every training (80)</summary>');
  expect(page).toContain('<td>277×</td>');
  expect(page.replace(/\s+/g, ' ')).toContain('after the warm-up, for ResNet-50.');
  expect(page).not.toContain('class="warning"');
});

test('the page holds everything, and fetches nothing', () => {
  const page = studyPage(RESULTS);
  expect(page).toContain("default-src 'none'");
  expect(page).toContain('Permission is hereby granted');
  expect(page).not.toMatch(/<(script|img|link)[^>]*(src|href)="(?!data:)/);
  expect(page).not.toMatch(/@import|url\(/);
});

test('the page of 8 methods, 8 seeds and 5 folds stays below a megabyte', () => {
  expect(studyPage(resultsOf(generatedTrainings())).length).toBeLessThan(1_000_000);
});

test('names cannot leave their place', () => {
  const evil = '</script><b>&"';
  const rename = <T extends { method: string }>(each: T): T =>
    each.method === 'dgc' ? { ...each, method: evil } : each;
  const page = studyPage(resultsOf(TRAININGS.map(rename).filter(({ method }) => !method.startsWith('dgc without'))));
  expect(page).not.toContain(evil);
  expect(page).toContain('&lt;/script&gt;&lt;b&gt;&amp;&quot;');
});

describe('the sentences about controls', () => {
  const sentences = (change: (training: Training) => Training): string => {
    const page = studyPage(resultsOf(TRAININGS.map(change)));
    return /<h3>Controls<\/h3>\s*<ul>(.*?)<\/ul>/s.exec(page)![1]!.replaceAll(/<.*?>/g, '');
  };
  /** Gives a method the scores of dense, shifted. */
  const like =
    (name: string, shift: number) =>
    (training: Training): Training => {
      const { workload, method, seed, fold, isTuning } = training;
      if (method !== name || workload !== 'digits' || isTuning) return training;
      const dense = TRAININGS.find(
        each =>
          each.method === 'dense' &&
          each.workload === workload &&
          each.seed === seed &&
          each.fold === fold &&
          !each.isTuning,
      )!;
      return { ...training, score: dense.score + shift, examples: Array.from(dense.examples, each => each + shift) };
    };

  test('say that both hold', () => {
    const text = sentences(training => training);
    expect(text).toMatch(/It holds: dense again differs from dense by .*The interval includes zero, and it passes\./);
    expect(text).toMatch(
      /It holds: gradient dropping fails, as it must\. It differs from dense by −\d\.\d\d \(−\d\.\d\d to −\d\.\d\d\) points\./,
    );
  });

  test('say that the same method differs from itself', () => {
    expect(sentences(like('dense again', 0.002))).toMatch(
      /It does not hold: dense again is the same method as dense, but differs by \+0\.20/,
    );
  });

  test('say that nothing shows that the task tells methods apart, and warn beside the verdicts', () => {
    expect(sentences(like('gradient dropping', 0))).toMatch(
      /It does not hold: gradient dropping .* can tell methods apart/,
    );
    const page = shownOf(resultsOf(TRAININGS.map(like('gradient dropping', 0))));
    expect(page).toMatch(/class="warning"><strong>digits:<\/strong> a control did not hold/);
  });

  test('say that one may pass, that one diverged, and that one is not there', () => {
    const half = (training: Training): Training =>
      like('gradient dropping', training.seed % 2 === 0 ? -0.002 : -0.004)(training);
    expect(sentences(half)).toMatch(
      /It does not hold: gradient dropping differs from dense by .*, and does not fail\. So nothing shows/,
    );
    const diverged = (each: Training): Training =>
      each.method === 'gradient dropping' && each.seed === 1 ? { ...each, score: NaN, examples: [] } : each;
    expect(sentences(diverged)).toContain('It holds: gradient dropping diverged in 2 of 8 trainings, and so fails.');
    const renamed = (each: Training): Training =>
      /again|dropping/.test(each.method) ? { ...each, method: `${each.method} 2` } : each;
    expect(sentences(renamed)).toMatch(/The control dense again was not trained.*There is no method that must fail/s);
  });
});

describe('words', () => {
  const { margins } = FACTS.declared;

  test('have the unit of the score', () => {
    const accuracy = wordsOf(margins['digits']!, 'dense');
    expect([accuracy.score, accuracy.difference, accuracy.scoreText(0.98611)]).toEqual([
      'Accuracy, %',
      'Difference, points',
      '98.61',
    ]);
    expect(accuracy.differenceWords({ mean: -0.0012, low: -0.0031, high: 0.0007 })).toBe(
      '−0.12 (−0.31 to +0.07) points',
    );
    const perplexity = wordsOf(margins['language']!, 'dense');
    expect([perplexity.score, perplexity.difference, perplexity.scoreText(96.123)]).toEqual([
      'Perplexity',
      'Difference, %',
      '96.12',
    ]);
    expect(perplexity.differenceWords({ mean: 0.004, low: null, high: null })).toBe('+0.40 %');
  });

  test('of intervals and ratios', () => {
    expect(intervalText({ mean: 1, low: 0, high: 2 }, String)).toBe('1 (0 to 2)');
    expect([1.044, 13.4, 1_462.3].map(ratioText)).toEqual(['1.04×', '13×', '1,462×']);
  });
});

describe('curves', () => {
  const curve = (step: number[], loss: (number | null)[]) => ({
    step,
    loss,
    error: loss,
    bytes: step.map(each => 10 * each),
    seconds: step,
  });

  test('are averaged at the steps that all have', () => {
    const both = meanCurve([curve([1, 2, 3], [4, 6, 1]), curve([1, 2], [8, null])]);
    expect(both).toEqual({ step: [1, 2], loss: [6, null], error: [6, null], bytes: [10, 20], seconds: [1, 2] });
  });

  test('have one for each seed, and a look for each method that is the same on all workloads', () => {
    const curves = curvesOf(RESULTS);
    expect(curves.map(({ methods }) => methods.map(({ seeds }) => seeds.length))).toEqual(
      Array(3).fill(Array(8).fill(4)),
    );
    expect(
      new Set(curves.map(({ methods }) => JSON.stringify(methods.map(({ name, look }) => [name, look])))).size,
    ).toBe(1);
    expect(new Set(curves[0]!.methods.map(({ look }) => look.color)).size).toBe(8);
    expect(curves.map(({ percent }) => percent)).toEqual([true, false, true]);
  });

  test('are thinned to their last point', () => {
    const long = TRAININGS.map(each => {
      const step = Array.from({ length: 500 }, (_, i) => i + 1);
      return {
        ...each,
        curve: curve(
          step,
          step.map(i => 1 / i),
        ),
      };
    });
    const { mean } = curvesOf(resultsOf(long))[0]!.methods[0]!;
    expect(mean.step.length).toBeGreaterThan(30);
    expect(mean.step.length).toBeLessThan(70);
    expect(mean.step.at(-1)).toBe(500);
  });
});
