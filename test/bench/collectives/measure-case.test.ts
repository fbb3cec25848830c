import type { Case, CollectiveBenchmark } from '../../../src/bench/collectives/collective-benchmark';
import { measureCase } from '../../../src/bench/collectives/measure-case';
import { Communicator } from '../../../src/communicator/communicator';

const MEASURED: Case = { elements: 0, type: 'float32', op: 'sum', root: 0, warmUp: 2, warmUpMs: 0, iterations: 3 };

afterEach(() => jest.restoreAllMocks());

/** The iterations of a case each of which takes 10 ms: those that were checked, all, and what was told of them. */
async function iterationsOf(measured: Case): Promise<{ checked: number[]; count: number; told: number[] }> {
  let clock = 0;
  jest.spyOn(performance, 'now').mockImplementation(() => clock);
  const checked: number[] = [];
  const told: number[] = [];
  let count = 0;
  const benchmark = {
    prepare: () => ({
      fill: () => undefined,
      run: () => {
        count += 1;
        clock += 10;
      },
      countWrong: (iteration: number) => checked.push(iteration) * 0,
      release: () => undefined,
    }),
  } as unknown as CollectiveBenchmark;
  const communicator = await Communicator.connect({ rank: 0, worldSize: 1 });
  try {
    const { timesMs } = await measureCase(communicator, benchmark, measured, true, iteration => told.push(iteration));
    expect(timesMs).toEqual(Array.from({ length: measured.iterations }, () => 10));
  } finally {
    await communicator.close();
  }
  return { checked, count, told };
}

test('the results of the warm-up and of one more iteration are checked', async () => {
  expect(await iterationsOf(MEASURED)).toMatchObject({ checked: [0, 1, 5], count: 6 });
  expect(await iterationsOf({ ...MEASURED, warmUp: 0 })).toMatchObject({ checked: [3], count: 4 });
});

test('a warm-up goes on until its time has passed, and is not checked then', async () => {
  const { checked, count, told } = await iterationsOf({ ...MEASURED, warmUpMs: 95 });
  expect(checked).toEqual([0, 1, 15]);
  expect(count).toBe(16);
  // Every 60 ms: those of a warm-up that goes on are not counted.
  expect(told).toEqual([0, 2, 2]);
});
