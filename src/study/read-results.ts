import { readFileSync } from 'node:fs';
import { invalidArgument } from '../errors';
import {
  type AblationResults,
  type ControlResult,
  type Controls,
  type Curve,
  type Declared,
  type Interval,
  type Machine,
  type Margin,
  type MethodResults,
  type PaperRatio,
  RESULTS_FORMAT,
  RESULTS_VERSION,
  type StudyResults,
  type TrainingResult,
  type TuningRow,
  type WorkloadResults,
} from './results';
import type { Resampling } from './statistics';

/**
 * The results in a file.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT` if the file cannot be read, is not one that this gradring reads, or
 *   lacks anything. The message names the place.
 */
export function readResults(file: string): StudyResults {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw invalidArgument(`${file} cannot be read as JSON: ${(error as Error).message}`);
  }
  const { format, version } = (value ?? {}) as Record<string, unknown>;
  if (format !== RESULTS_FORMAT) {
    throw invalidArgument(`${file} does not hold the results of a study: gradring study --json FILE writes them.`);
  }
  if (version !== RESULTS_VERSION) {
    const found = JSON.stringify(version);
    throw invalidArgument(
      `${file} has version ${found} of the format, but this gradring reads version ${RESULTS_VERSION}.`,
    );
  }
  const complaint = results(value, '');
  if (complaint !== undefined) throw invalidArgument(`${file} is damaged: ${complaint}.`);
  return value as StudyResults;
}

/** What is wrong with a value at a place, if anything is. */
type Check = (value: unknown, place: string) => string | undefined;

const is =
  (words: string, holds: (value: unknown) => boolean): Check =>
  (value, place) => {
    if (value === undefined) return `${place} is missing`;
    return holds(value) ? undefined : `${place} is not ${words}`;
  };
const text = is('a text', value => typeof value === 'string');
const number = is('a number', value => typeof value === 'number');
const truth = is('true or false', value => typeof value === 'boolean');
const date = is('a date', value => typeof value === 'string' && !Number.isNaN(Date.parse(value)));
const oneOf = (...words: readonly unknown[]): Check => is(`one of ${words.join(', ')}`, value => words.includes(value));
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const object = is('an object', isObject);

const orNull =
  (check: Check): Check =>
  (value, place) =>
    value === null ? undefined : check(value, place);
const optional =
  (check: Check): Check =>
  (value, place) =>
    value === undefined ? undefined : check(value, place);
const first = (complaints: readonly (string | undefined)[]) => complaints.find(each => each !== undefined);
const list =
  (check: Check): Check =>
  (value, place) =>
    Array.isArray(value)
      ? first(value.map((each, i) => check(each, `${place}[${i}]`)))
      : is('a list', () => false)(value, place);
const record =
  (check: Check): Check =>
  (value, place) =>
    object(value, place) ?? first(Object.entries(value as object).map(([key, each]) => check(each, `${place}.${key}`)));
/** An object with these fields, and maybe others. */
const fields =
  <T>(checks: Readonly<Record<keyof T, Check>>): Check =>
  (value, place) =>
    object(value, place === '' ? 'the content' : place) ??
    first(
      Object.entries<Check>(checks).map(([key, check]) =>
        check((value as Record<string, unknown>)[key], place === '' ? key : `${place}.${key}`),
      ),
    );

const interval = fields<Interval>({ mean: number, low: orNull(number), high: orNull(number) });
const paper = fields<PaperRatio>({ ratio: number, model: text });
const sameLengths: Check = (value, place) => {
  const lengths = Object.values(value as Curve).map(({ length }) => length);
  return lengths.every(length => length === lengths[0]) ? undefined : `${place} has arrays of different lengths`;
};
const curveFields = fields<Curve>({
  step: list(number),
  loss: list(orNull(number)),
  error: list(orNull(number)),
  bytes: list(number),
  seconds: list(number),
});
const training = fields<TrainingResult>({
  seed: number,
  fold: number,
  score: orNull(number),
  logLoss: orNull(number),
  bytesSentPerRank: number,
  steps: number,
  seconds: number,
  curve: (value, place) => curveFields(value, place) ?? sameLengths(value, place),
});
const METHOD: Readonly<Record<keyof MethodResults, Check>> = {
  name: text,
  options: object,
  learningRate: number,
  seeds: list(training),
  diverged: number,
  mean: orNull(number),
  interval: orNull(interval),
  logLoss: orNull(interval),
  differenceFromDense: orNull(interval),
  differenceOverExamples: orNull(interval),
  logLossDifference: orNull(interval),
  verdict: orNull(oneOf('passes', 'fails', 'undecided')),
  bytesSentPerRank: number,
  ratio: orNull(number),
  ratioAfterWarmUp: orNull(number),
  paper: optional(paper),
  seconds: number,
};
const control = fields<ControlResult>({ method: text, held: truth });
const workload = fields<WorkloadResults>({
  name: text,
  data: text,
  parameters: number,
  ranks: optional(number),
  paper: optional(record(paper)),
  methods: list(fields<MethodResults>(METHOD)),
  controls: fields<WorkloadResults['controls']>({ sameMethod: orNull(control), mustFail: orNull(control) }),
  ablation: list(fields<AblationResults>({ ...METHOD, differenceFromFull: orNull(interval) })),
  tuning: list(
    fields<TuningRow>({
      method: text,
      learningRate: number,
      seeds: list(number),
      mean: orNull(number),
      logLoss: orNull(number),
      best: truth,
    }),
  ),
});
const declaredForAll: Check = (value, place) => {
  const { declared, workloads } = value as StudyResults;
  for (const what of ['margins', 'controls'] as const) {
    const without = workloads.find(({ name }) => declared[what][name] === undefined);
    if (without !== undefined) return `${place}declared.${what} has none for ${without.name}`;
  }
  return undefined;
};
const resultFields = fields<StudyResults>({
  format: text,
  version: number,
  machine: fields<Machine>({
    processor: text,
    cores: number,
    memoryBytes: number,
    system: text,
    node: text,
    gradring: text,
  }),
  startedAt: date,
  finishedAt: date,
  command: text,
  programs: list(text),
  ranks: number,
  declared: fields<Declared>({
    margins: record(
      fields<Margin>({
        score: oneOf('accuracy', 'perplexity', 'label error rate'),
        better: oneOf('higher', 'lower'),
        kind: oneOf('absolute', 'relative'),
        worse: number,
      }),
    ),
    tests: fields<Resampling>({ confidence: number, resamples: number, seed: number }),
    baseline: text,
    controls: record(fields<Controls>({ sameMethod: text, mustFail: text })),
    ablation: optional(fields<NonNullable<Declared['ablation']>>({ of: text, methods: list(text) })),
    notes: list(text),
  }),
  workloads: list(workload),
  limits: list(text),
});
const results: Check = (value, place) => resultFields(value, place) ?? declaredForAll(value, place);
