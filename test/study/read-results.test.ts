import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readResults } from '../../src/study/read-results';
import { type StudyResults, thisMachine, type WorkloadResults } from '../../src/study/results';
import { summarise } from '../../src/study/summarise';
import { readVersion } from '../../src/version';
import { FACTS, generatedTrainings } from './generated-study';

const folder = mkdtempSync(path.join(tmpdir(), 'gradring-study-'));
const file = path.join(folder, 'study.json');
afterAll(() => rmSync(folder, { recursive: true }));

const RESULTS = JSON.parse(
  JSON.stringify(summarise(generatedTrainings(2, 1), { ...FACTS, workloads: FACTS.workloads.slice(0, 2) })),
) as StudyResults;

/** What reading a file with this text throws. */
function complaint(text: string): string {
  writeFileSync(file, text);
  try {
    readResults(file);
    return 'nothing';
  } catch (error) {
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    return (error as Error).message.replace(file, 'FILE');
  }
}

test('what was written is read again', () => {
  writeFileSync(file, JSON.stringify(RESULTS));
  expect(readResults(file)).toEqual(RESULTS);
});

test.each([
  ['no JSON', '{ "format": ', /^FILE cannot be read as JSON: /],
  ['another thing', '[1, 2]', 'FILE does not hold the results of a study: gradring study --json FILE writes them.'],
  ['nothing', 'null', 'FILE does not hold the results of a study: gradring study --json FILE writes them.'],
  [
    'a later version',
    '{ "format": "gradring study", "version": 2 }',
    'FILE has version 2 of the format, but this gradring reads version 1.',
  ],
  ['a wrong type', JSON.stringify({ ...RESULTS, ranks: '4' }), 'FILE is damaged: ranks is not a number.'],
  ['a wrong date', JSON.stringify({ ...RESULTS, startedAt: 'soon' }), 'FILE is damaged: startedAt is not a date.'],
  ['no list', JSON.stringify({ ...RESULTS, workloads: {} }), 'FILE is damaged: workloads is not a list.'],
  [
    'a workload without a margin',
    JSON.stringify({ ...RESULTS, declared: { ...RESULTS.declared, margins: {} } }),
    'FILE is damaged: declared.margins has none for digits.',
  ],
])('%s is refused', (_, text, message) => {
  expect(complaint(text)).toEqual(typeof message === 'string' ? message : expect.stringMatching(message));
});

test('a missing file is refused', () => {
  expect(() => readResults(path.join(folder, 'none.json'))).toThrow(/none\.json cannot be read as JSON: ENOENT/);
});

test('a verdict that there is not, and a curve with a hole, are refused', () => {
  const [workload] = structuredClone(RESULTS.workloads) as unknown as [
    { methods: { verdict: string; seeds: { curve: { loss: number[] } }[] }[] },
  ];
  workload.methods[1]!.verdict = 'good';
  const text = JSON.stringify({ ...RESULTS, workloads: [workload] });
  expect(complaint(text)).toBe(
    'FILE is damaged: workloads[0].methods[1].verdict is not one of passes, fails, undecided.',
  );
  workload.methods[1]!.verdict = 'passes';
  workload.methods[0]!.seeds[1]!.curve.loss.pop();
  expect(complaint(JSON.stringify({ ...RESULTS, workloads: [workload] }))).toBe(
    'FILE is damaged: workloads[0].methods[0].seeds[1].curve has arrays of different lengths.',
  );
});

/** The places of all fields of the results, without the entries of lists after the first. */
function placesIn(value: unknown, place = ''): string[] {
  if (Array.isArray(value)) return value.slice(0, 1).flatMap(each => placesIn(each, `${place}[0]`));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => {
    const inner = place === '' ? key : `${place}.${key}`;
    return [inner, ...placesIn(each, inner)];
  });
}

test('a file that lacks any field is refused, with its place', () => {
  const optional = /\.options\.|\.paper$|\.paper\.\w+$|declared\.ablation$|^declared\.(margins|controls)\.\w+$/;
  // One of each, to be quick. The first method is dense, which has no differences.
  const [{ methods, ablation, tuning, ...workload }] = RESULTS.workloads as [WorkloadResults];
  const one = { methods: [methods[2]!], ablation: ablation.slice(0, 1), tuning: tuning.slice(0, 1) };
  const results = { ...RESULTS, workloads: [{ ...workload, ...one }] };
  const places = placesIn(results).filter(place => !optional.test(place) && place !== 'format' && place !== 'version');
  expect(places).toContain('workloads[0].methods[0].differenceOverExamples.high');
  expect(places.length).toBeGreaterThan(90);
  for (const place of places) {
    const copy = structuredClone(results);
    const keys = place.split(/\.|\[|\]\.?/).filter(key => key !== '');
    const last = keys.pop()!;
    const holder = keys.reduce<Record<string, unknown>>(
      (each, key) => each[key] as Record<string, unknown>,
      copy as never,
    );
    delete holder[last];
    expect(complaint(JSON.stringify(copy))).toBe(`FILE is damaged: ${place} is missing.`);
  }
});

test('this machine is described', () => {
  expect(thisMachine()).toMatchObject({ node: process.version, gradring: readVersion() });
  expect(thisMachine().memoryBytes).toBeGreaterThan(2 ** 26);
});
