import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { StallWatch } from '../../src/comm-thread/stall-watch';
import type { RankState, Transport } from '../../src/transport/transport';
import { Operation, Purpose } from '../../src/wire/frame';
import { cleanUp, temporaryFolder, waitUntil } from '../launcher/support';
import { beStoppedFor } from '../support/stopped-process';
import { type FaultyRun, runFaulty } from '../faults/support';

afterEach(cleanUp);

/** What is said of calls. On a slow machine ranks also come late to the rendezvous, and that is said, too. */
const lines = (output: string) =>
  output.split('\n').filter(line => line.startsWith('gradring: ') && !line.includes('come to the rendezvous'));

/**
 * Runs a script in which a rank comes late: `isAbsent()` is true until that many lines have been said on stderr. Tells
 * also which ranks said them.
 */
async function runUntilSaid(
  ranks: number,
  source: string,
  count: number,
): Promise<FaultyRun & { readonly tellers: number[] }> {
  const folder = temporaryFolder();
  const file = path.join(folder, 'come');
  const run = await runFaulty(
    ranks,
    `const isAbsent = () => !require('node:fs').existsSync(${JSON.stringify(file)});\n${source}`,
    {
      env: { GRADRING_STALL_MS: '500', GRADRING_TIMEOUT_MS: '60000' },
      args: ['--output-dir', folder],
      during: async (_, output) => {
        await waitUntil('the lines', () => lines(output.stderr).length >= count);
        writeFileSync(file, '');
      },
    },
  );
  const logs = Array.from({ length: ranks }, (_, rank) => readFileSync(path.join(folder, `rank-${rank}.log`), 'utf8'));
  return { ...run, tellers: logs.flatMap((log, rank) => (lines(log).length > 0 ? [rank] : [])) };
}

test.each([
  ['is late', 2, 'while (isAbsent()) await sleep(20);'],
  ['is busy and its event loop does not turn', 1, 'while (isAbsent());'],
])('one rank tells of a rank that %s; when it comes all go on', async (_, count, absence) => {
  const source = `
    const ring = await Communicator.connect();
    await ring.allReduce(Float32Array.of(1));
    ready();
    if (ring.rank === 2) { ${absence} }
    await ring.barrier();
    say('done');`;
  const { exitCode, stdout, stderr, tellers } = await runUntilSaid(3, source, count);
  expect({ exitCode, done: stdout.match(/^done$/gm)?.length }).toEqual({ exitCode: 0, done: 3 });
  expect(tellers).toEqual([0]);
  for (const line of lines(stderr)) {
    expect(line).toMatch(
      /^gradring: 2 ranks have waited \d+ s in barrier\(\) \(collective 1\): rank 2 has not called it; its last call, allReduce\(sum, float32\[1\]\) \(collective 0\), ended \d+ s ago\.$/,
    );
  }
});

test('says of a rank that has called nothing yet that it has not', async () => {
  const source = `
    const ring = await Communicator.connect();
    ready();
    if (ring.rank === 1) while (isAbsent()) await sleep(20);
    await ring.barrier();`;
  const { exitCode, stderr } = await runUntilSaid(3, source, 1);
  expect(exitCode).toBe(0);
  expect(lines(stderr)[0]).toMatch(
    /^gradring: 2 ranks have waited \d+ s in barrier\(\) \(collective 0\): rank 1 has not called it, or anything else since it joined \d+ s ago\.$/,
  );
});

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
    let answered: ReadonlyMap<number, RankState> = new Map();
    const transport: Partial<Transport> = {
      ...{ rank: 0, worldSize: 3, attend: () => undefined },
      ask: what => {
        asked.push([what, seconds()]);
        answered = new Map(answers().map((state, i) => [1 + i, state]));
      },
      answers: () => answered,
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

test('a rank that does not answer is said to', async () => {
  const source = `
    const ring = await Communicator.connect();
    await ring.barrier();
    ready();
    if (ring.rank === 1) await sleep(60_000);
    await ring.barrier().catch(raise);`;
  const { stderr, raised } = await runFaulty(3, source, {
    env: { GRADRING_STALL_MS: '300', GRADRING_TIMEOUT_MS: '3000' },
    args: ['--grace-ms', '300'],
    during: pids => void process.kill(pids[1]!, 'SIGSTOP'),
  });
  const words = /: rank 1 does not answer \(its process is stopped, or its network is cut\)\.$/;
  expect(lines(stderr)).toContainEqual(expect.stringMatching(words)); // not the first, perhaps: it answered before
  for (const rank of [0, 2]) expect(raised[rank]).toMatchObject({ code: 'ERR_TIMEOUT', rank: 1 });
});
