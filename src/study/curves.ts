import { COLORS } from '../charts/html-page';
import { mean } from './statistics';
import type { Curve, Declared, StudyResults, WorkloadResults } from './results';

/** The curves of one workload, as plain data for the page. */
export interface WorkloadCurves {
  /** The id of the element on the page where they are drawn. */
  readonly id: string;
  /** Whether the error is a share, shown in percent. */
  readonly percent: boolean;
  readonly methods: readonly MethodCurves[];
}

/** The curves of one method. */
export interface MethodCurves {
  readonly name: string;
  readonly look: Look;
  /** One for each seed: the mean over its folds. */
  readonly seeds: readonly Curve[];
  /** Over the seeds. */
  readonly mean: Curve;
}

/** How the curves of a method look, on the whole page. */
export interface Look {
  /** The name of a colour of the style. */
  readonly color: string;
  readonly dashed: boolean;
}

/** More points than this are not drawn. */
const MOST_POINTS = 60;

/** The curves of all workloads, averaged over folds, and with few enough points for a page. */
export function curvesOf(results: StudyResults): WorkloadCurves[] {
  const looks = looksOf(results);
  return results.workloads.map((workload, i) => ({
    id: `curves-${i}`,
    percent: results.declared.margins[workload.name]!.score !== 'perplexity',
    methods: workload.methods.map(({ name, seeds }) => {
      const bySeed = [...new Set(seeds.map(({ seed }) => seed))].map(seed =>
        meanCurve(seeds.filter(each => each.seed === seed).map(({ curve }) => curve)),
      );
      return { name, look: looks.get(name)!, seeds: bySeed.map(thinned), mean: thinned(meanCurve(bySeed)) };
    }),
  }));
}

/** How each method looks, by its name. The baseline has the colour of text. */
export function looksOf({ declared, workloads }: { declared: Declared; workloads: readonly WorkloadResults[] }) {
  const names = new Set(workloads.flatMap(({ methods }) => methods.map(({ name }) => name)));
  names.delete(declared.baseline);
  return new Map<string, Look>([
    [declared.baseline, { color: '--ink', dashed: false }],
    ...[...names].map((name, i): [string, Look] => [
      name,
      { color: `--series-${1 + (i % COLORS)}`, dashed: i >= COLORS },
    ]),
  ]);
}

/** The mean of curves at the steps that all of them have, so it ends where the first of them does. */
export function meanCurve(curves: readonly Curve[]): Curve {
  const rows = curves.map(({ step }) => new Map(step.map((each, i) => [each, i])));
  const step = curves[0]!.step.filter(each => rows.every(row => row.has(each)));
  const over = (values: (curve: Curve) => readonly (number | null)[]): (number | null)[] =>
    step.map(each => {
      const column = curves.map((curve, i) => values(curve)[rows[i]!.get(each)!]!);
      return column.some(value => value === null) ? null : mean(column as number[]);
    });
  return {
    step,
    loss: over(curve => curve.loss),
    error: over(curve => curve.error),
    bytes: over(curve => curve.bytes) as number[],
    seconds: over(curve => curve.seconds) as number[],
  };
}

/** Fewer points, the last among them, with as many digits as can be seen. */
function thinned({ step, loss, error, bytes, seconds }: Curve): Curve {
  const every = Math.ceil(step.length / MOST_POINTS);
  const some = <T extends number | null>(values: readonly T[]): T[] =>
    values
      .filter((_, i) => (step.length - 1 - i) % every === 0)
      .map(value => (value === null ? value : (Number(value.toPrecision(4)) as T)));
  return {
    step: some(step),
    loss: some(loss),
    error: some(error),
    bytes: some(bytes),
    seconds: some(seconds),
  };
}
