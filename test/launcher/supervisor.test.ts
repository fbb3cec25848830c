import type { RankOutcome, RankProcess } from '../../src/launcher/rank-process';
import { endTogether, type RunEnd, Supervisor } from '../../src/launcher/supervisor';

/** A rank without a process, which ends when the test says so and notes what it is sent. */
class FakeRank {
  readonly sent: string[] = [];
  end!: (exitCode: number | null, signal?: NodeJS.Signals) => void;
  readonly ended: Promise<RankOutcome>;
  readonly started = Promise.resolve();
  onTold: (line: string) => void = () => undefined;
  readonly pid: number;

  constructor(readonly rank: number) {
    this.pid = rank;
    this.ended = new Promise(resolve => {
      this.end = (exitCode, signal) => resolve({ rank, pid: rank, exitCode, signal: signal ?? null, afterMs: 0 });
    });
  }

  signal(signal: string): void {
    this.sent.push(signal);
  }

  kill(): void {
    this.sent.push('SIGKILL');
  }
}

/** A static run of ranks that are running. */
function supervise(count: number): { ranks: FakeRank[]; supervisor: Supervisor; said: string[]; end: Promise<RunEnd> } {
  const ranks: FakeRank[] = [];
  const said: string[] = [];
  const supervisor = new Supervisor(count, 60_000, {
    start: rank => (ranks[rank] = new FakeRank(rank)) as unknown as RankProcess,
    outputs: { relay: async () => undefined, say: async lines => void said.push(...lines) },
  });
  return { ranks, supervisor, said, end: supervisor.run(endTogether(60_000)) };
}

const nextTick = (): Promise<void> => new Promise(resolve => setImmediate(() => setImmediate(resolve)));

test('ranks that still run long after the first was done are named, less and less often', async () => {
  jest.useFakeTimers();
  try {
    const { ranks, said, end } = supervise(3);
    await jest.advanceTimersByTimeAsync(3_600_000);
    expect(said).toEqual([]);
    ranks[1]!.end(0);
    await jest.advanceTimersByTimeAsync(31_000);
    ranks[0]!.end(0);
    await jest.advanceTimersByTimeAsync(120_000);
    ranks[2]!.end(0);
    await end;
    await jest.advanceTimersByTimeAsync(3_600_000);
    expect(said).toEqual([
      'gradring: still running, 30 s after the first rank was done: rank 0 (pid 0), rank 2 (pid 2).',
      'gradring: still running, 90 s after the first rank was done: rank 2 (pid 2).',
    ]);
  } finally {
    jest.useRealTimers();
  }
});

test('of failures seen in one tick, a signal counts as the first', async () => {
  const { ranks, end } = supervise(3);
  ranks[0]!.end(1);
  ranks[1]!.end(null, 'SIGKILL');
  ranks[2]!.end(2);
  expect(await end).toMatchObject({ failure: { rank: 1, signal: 'SIGKILL' } });
});

test('of failures seen in different ticks, the first is, whatever the others are', async () => {
  const { ranks, end } = supervise(3);
  ranks[2]!.end(1);
  await nextTick();
  ranks[0]!.end(null, 'SIGKILL');
  ranks[1]!.end(3);
  expect(await end).toMatchObject({ failure: { rank: 2, exitCode: 1 } });
});

test('a failure after a signal is none, a signal after a failure no interruption', async () => {
  const interrupted = supervise(2);
  interrupted.supervisor.receive('SIGINT');
  for (const rank of interrupted.ranks) rank.end(1);
  expect(await interrupted.end).toMatchObject({ failure: undefined, interruptedBy: 'SIGINT' });

  const failed = supervise(2);
  failed.ranks[1]!.end(4);
  await nextTick();
  failed.supervisor.receive('SIGINT');
  failed.ranks[0]!.end(1);
  expect(await failed.end).toMatchObject({ failure: { rank: 1 }, interruptedBy: undefined });
});

test('another signal is passed on too; only the same again kills', async () => {
  const { ranks, supervisor, end } = supervise(2);
  supervisor.receive('SIGINT');
  supervisor.receive('SIGTERM');
  for (const rank of ranks) expect(rank.sent).toEqual(['SIGINT', 'SIGTERM']);
  supervisor.receive('SIGTERM');
  for (const rank of ranks) expect(rank.sent).toEqual(['SIGINT', 'SIGTERM', 'SIGKILL']);
  for (const rank of ranks) rank.end(null, 'SIGKILL');
  await end;
});

test('SIGUSR1 ends nothing: it reaches the ranks that save and stop, at once or when they begin to', async () => {
  const { ranks, end } = supervise(3);
  const tells = (rank: number, isListening: boolean) =>
    ranks[rank]!.onTold(JSON.stringify({ kind: 'listens', isListening }));
  tells(0, true);
  tells(2, true);
  tells(2, false);
  process.emit('SIGUSR1');
  expect(ranks.map(({ sent }) => sent)).toEqual([['SIGUSR1'], [], []]);
  tells(1, true);
  expect(ranks.map(({ sent }) => sent)).toEqual([['SIGUSR1'], ['SIGUSR1'], []]);
  for (const { end: exit, onTold } of ranks) {
    onTold(JSON.stringify({ kind: 'saved' }));
    exit(75);
  }
  expect(await end).toMatchObject({ failure: undefined, interruptedBy: undefined });
});

test('exit code 75 of a script that was not told to stop is a failure like any other', async () => {
  const { ranks, end } = supervise(2);
  ranks[1]!.end(75);
  await nextTick();
  ranks[0]!.end(0);
  expect(await end).toMatchObject({ failure: { rank: 1, exitCode: 75 } });
});

test('when a run has failed, ranks that would take SIGTERM as a request to save are killed', async () => {
  jest.useFakeTimers();
  try {
    const { ranks, end } = supervise(3);
    ranks[0]!.onTold(JSON.stringify({ kind: 'listens', isListening: true }));
    ranks[2]!.end(1);
    await jest.advanceTimersByTimeAsync(60_001);
    expect(ranks.map(({ sent }) => sent)).toEqual([['SIGKILL', 'SIGTERM'], ['SIGTERM'], []]);
    for (const { end: exit } of ranks) exit(null, 'SIGKILL');
    await end;
  } finally {
    jest.useRealTimers();
  }
});
