import type { Case, CollectiveBenchmark } from '../../../src/bench/collectives/collective-benchmark';
import { measureCase } from '../../../src/bench/collectives/measure-case';
import { Communicator } from '../../../src/communicator/communicator';

const MEASURED: Case = { elements: 0, type: 'float32', op: 'sum', root: 0, warmUp: 2, warmUpMs: 0, iterations: 3 };

afterEach(() => jest.restoreAllMocks());

interface Iterations {
  readonly filled: readonly number[];
  readonly checked: readonly number[];
  readonly count: number;
  /** What was told of them. */
  readonly told: readonly number[];
}

/** The iterations of a case each of which takes 20 ms. */
async function iterationsOf(measured: Case, check = true): Promise<Iterations> {
  let clock = 0;
  jest.spyOn(performance, 'now').mockImplementation(() => clock);
  const filled: number[] = [];
  const checked: number[] = [];
  const told: number[] = [];
  let count = 0;
  const benchmark = {
    prepare: () => ({
      fill: (iteration: number) => filled.push(iteration),
      run: () => {
        count += 1;
        clock += 20;
      },
      countWrong: (iteration: number) => checked.push(iteration) * 0,
      release: () => undefined,
    }),
  } as unknown as CollectiveBenchmark;
  const communicator = await Communicator.connect({ rank: 0, worldSize: 1 });
  try {
    const { timesMs } = await measureCase(communicator, benchmark, measured, check, iteration => told.push(iteration));
    expect(timesMs).toEqual(Array.from({ length: measured.iterations }, () => 20));
  } finally {
    await communicator.close();
  }
  return { filled, checked, count, told };
}

test('the results of the warm-up and of one more iteration are checked', async () => {
  expect(await iterationsOf(MEASURED)).toMatchObject({ filled: [0, 1, 5], checked: [0, 1, 5], count: 6 });
  expect(await iterationsOf({ ...MEASURED, warmUp: 0 })).toMatchObject({ filled: [0, 3], checked: [3], count: 4 });
  expect(await iterationsOf(MEASURED, false)).toMatchObject({ filled: [0], checked: [], count: 5 });
});

test('a warm-up goes on until its time has passed, and is not checked then', async () => {
  const { filled, checked, count, told } = await iterationsOf({ ...MEASURED, warmUpMs: 95 });
  expect(filled).toEqual([0, 1, 10]);
  expect(checked).toEqual([0, 1, 10]);
  expect(count).toBe(11); // 2, 5 of 20 ms, 3 that are timed, 1
  expect(told).toEqual([0, 2, 2, 4]); // every 60 ms; those of a warm-up that goes on are not counted
});

test('slow iterations are not repeated as often as they were checked', async () => {
  expect(await iterationsOf({ ...MEASURED, warmUp: 8, warmUpMs: 30 })).toMatchObject({ count: 8 + 2 + 3 + 1 });
  expect(await iterationsOf({ ...MEASURED, warmUp: 8, warmUpMs: 1 })).toMatchObject({ count: 8 + 1 + 3 + 1 });
});
