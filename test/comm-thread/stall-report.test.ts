import { StallWatch } from '../../src/comm-thread/stall-watch';
import type { RankState } from '../../src/transport/control/roll-call';
import type { Transport } from '../../src/transport/transport';
import { Operation, Purpose } from '../../src/wire/frame';
import { cleanUp } from '../launcher/support';
import { beStoppedFor } from '../support/stopped-process';
import { expectReport } from './stalls';

afterEach(cleanUp);

// Ranks that are late in other ways: test/slow/stall-report.test.ts.
test('one rank tells of a rank that is busy and its event loop does not turn; when it comes all go on', () =>
  expectReport(1, 'while (isAbsent());'));

describe('by a clock that the test moves', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => {
    jest.useRealTimers();
    jest.restoreAllMocks();
  });

  const call: RankState['call'] = {
    ...({ operation: Operation.Barrier, purpose: Purpose.Call, elementType: 'none', reduction: 'none' } as const),
    ...{ elementCount: 0, parameter: 0 },
  };
  const at = (sequence: number, isCalling: boolean): RankState => {
    return { call, sequence, isCalling, sinceMs: performance.now() - startedAt, step: undefined, settings: undefined };
  };
  let startedAt: number;

  /**
   * Rank 0 of three waits in its collective 7. The others answer when they are asked. Returns what it says and asks,
   * each with the second in which it did.
   */
  function waiting(stallMs: number, answers: () => [RankState, RankState]) {
    startedAt = performance.now();
    const seconds = () => (performance.now() - startedAt) / 1000;
    const said: [line: string, at: number][] = [];
    const asked: [what: string, at: number][] = [];
    const failures: Error[] = [];
    let answered = new Map<number, RankState>();
    const transport: Partial<Transport> = {
      ...{ rank: 0, worldSize: 3 },
      rollCall: {
        attend: () => undefined,
        ask: what => {
          asked.push([what, seconds()]);
          answered = new Map(answers().map((state, i) => [1 + i, state]));
        },
        answers: () => answered,
      },
      fail: async error => (failures.push(error), error),
    };
    const watch = new StallWatch(transport as Transport, { timeoutMs: 300_000, stallMs }, line =>
      said.push([line, seconds()]),
    );
    watch.begin({ fingerprint: call, sequence: 7, step: undefined, settings: undefined });
    return { said, asked, failures };
  }

  test('the report is given in its time, a second after it was asked for, and after twice as long again', async () => {
    const { said } = waiting(30_000, () => [at(7, true), at(6, true)]);
    await jest.advanceTimersByTimeAsync(299_000);
    expect(said.map(([, seconds]) => Math.round(seconds))).toEqual([31, 91, 211]);
    expect(said[0]![0]).toBe(
      'gradring: 2 ranks have waited 31 s in barrier() (collective 7): rank 2 has not called it; it has been in barrier() (collective 6) for 30 s.',
    );
  });

  test('with 0 there is none, and nobody is asked for one', async () => {
    const { said, asked, failures } = waiting(0, () => [at(7, true), at(6, false)]);
    await jest.advanceTimersByTimeAsync(301_000);
    expect(said).toEqual([]);
    expect([...new Set(asked.map(([what]) => what))]).toEqual(['answers']); // for the error at the deadline
    expect(failures).toHaveLength(1);
  });

  test('the time in which this process was stopped, perhaps with all others, does not count', async () => {
    const { failures } = waiting(0, () => [at(7, true), at(6, false)]);
    await jest.advanceTimersByTimeAsync(100_000);
    beStoppedFor(3_600_000);
    await jest.advanceTimersByTimeAsync(199_000);
    expect(failures).toEqual([]);
    await jest.advanceTimersByTimeAsync(3_000);
    expect(failures).toMatchObject([{ code: 'ERR_TIMEOUT', details: { rank: 2 } }]);
  });

  test('the error at the deadline names who has not called by then, not who came late', async () => {
    const isLate = () => performance.now() - startedAt < 297_000; // the first question is at 295 s
    const { failures } = waiting(0, () => [isLate() ? at(6, false) : at(7, true), at(6, false)]);
    await jest.advanceTimersByTimeAsync(299_000);
    expect(failures).toEqual([]);
    await jest.advanceTimersByTimeAsync(2_000);
    expect(failures).toMatchObject([{ code: 'ERR_TIMEOUT', details: { rank: 2 } }]);
    expect(failures[0]!.message).not.toContain('rank 1');
  });
});
