import path from 'node:path';
import { largestError, RING_SIZES, runScenariosInRings } from './support';

/** What a rank has at the end of a training. Momentum and residual are those of its matrix. */
interface Trained {
  readonly from: number;
  readonly weights: number[];
  readonly momentum: number[];
  readonly residual: number[];
  readonly density: number;
}

const NODE_OPTIONS = `--require ${JSON.stringify(path.join(__dirname, 'fixtures/host-names.js'))}`;

const sumOf = (arrays: readonly (readonly number[])[]) =>
  arrays[0]!.map((_, i) => arrays.reduce((sum, array) => sum + (array[i] ?? 0), 0));

/** The ranks that hold something back. */
const holdersOf = (states: readonly (readonly number[])[]) =>
  states.flatMap((values, rank) => (values.some(value => value !== 0) ? [rank] : []));

describe.each(RING_SIZES.filter(size => size > 1))('%d ranks', ranks => {
  const valuesOf = runScenariosInRings('per-host.js', ranks, {}, { NODE_OPTIONS });

  /** The last rank of each host. The second of two hosts has rank 2. */
  const lastOf = (where: string) => (where === 'two hosts' && ranks === 3 ? [1, 2] : [ranks - 1]);

  /** What was applied, times the ranks, and what is held back are all gradients of all steps. */
  function expectNothingLost(all: readonly Trained[], given: readonly (readonly number[])[][]): void {
    const applied = all[0]!.weights.map(weight => -weight * ranks);
    const held = all.map(({ residual }) => residual);
    const due = sumOf(given.flat());
    expect(largestError(sumOf([applied, ...held]), due)).toBeLessThan(1e-4);
  }

  describe.each(['one host', 'two hosts'])('on %s', where => {
    test.each(['every step', 'overlap', 'local steps'])(
      '%s: nothing is lost, and a checkpoint resumes bit for bit',
      way => {
        const values = valuesOf<Record<'whole' | 'resumed' | 'sums', Trained> & { given: number[][] }>(
          `${way}, ${where}`,
        );
        for (const { whole, resumed } of values) {
          expect(whole).toMatchObject({ from: 0, density: 0.1, weights: values[0]!.whole.weights });
          expect(resumed).toEqual({ ...whole, from: 5 });
        }
        for (const kind of ['momentum', 'residual'] as const) {
          expect(holdersOf(values.map(({ whole }) => whole[kind]))).toEqual(lastOf(where));
        }
        expectNothingLost(
          values.map(({ sums }) => sums),
          values.map(({ given }) => given),
        );
      },
    );
  });

  test('on one host after two, what ranks have held back goes to the last', () => {
    const values = valuesOf<{ before: Trained; after: Trained; given: number[][] }>(
      'saved on two hosts, resumed on one',
    );
    const after = values.map(value => value.after);
    expect(holdersOf(values.map(({ before }) => before.residual))).toEqual(lastOf('two hosts'));
    expect(holdersOf(after.map(({ residual }) => residual))).toEqual(lastOf('one host'));
    expectNothingLost(
      after,
      values.map(({ given }) => given),
    );
  });
});
