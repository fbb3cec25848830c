import type { RankOutcome, RankProcess } from '../../src/launcher/rank-process';
import { Supervisor } from '../../src/launcher/supervisor';

/** A rank without a process, which ends when the test says so and notes what it is sent. */
class FakeRank {
  readonly sent: string[] = [];
  end!: (exitCode: number | null, signal?: NodeJS.Signals) => void;
  readonly ended: Promise<RankOutcome>;

  constructor(readonly rank: number) {
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

function supervise(count: number): { ranks: FakeRank[]; supervisor: Supervisor } {
  const ranks = Array.from({ length: count }, (_, rank) => new FakeRank(rank));
  const supervisor = new Supervisor(ranks as unknown as RankProcess[], { graceMs: 60_000, failureGraceMs: 60_000 });
  return { ranks, supervisor };
}

const nextTick = (): Promise<void> => new Promise(resolve => setImmediate(() => setImmediate(resolve)));

test('of failures seen in one tick, a signal is the root cause', async () => {
  const { ranks, supervisor } = supervise(3);
  const all = supervisor.untilAllEnded();
  ranks[0]!.end(1);
  ranks[1]!.end(null, 'SIGKILL');
  ranks[2]!.end(2);
  await all;
  expect(supervisor.rootCause).toMatchObject({ rank: 1, signal: 'SIGKILL' });
});

test('of failures seen in different ticks, the first is, whatever the others are', async () => {
  const { ranks, supervisor } = supervise(3);
  const all = supervisor.untilAllEnded();
  ranks[2]!.end(1);
  await nextTick();
  ranks[0]!.end(null, 'SIGKILL');
  ranks[1]!.end(3);
  await all;
  expect(supervisor.rootCause).toMatchObject({ rank: 2, exitCode: 1 });
});

test('a failure after a signal is no root cause, a signal after a failure no interruption', async () => {
  const interrupted = supervise(2);
  const interruptedEnd = interrupted.supervisor.untilAllEnded();
  interrupted.supervisor.receive('SIGINT');
  for (const rank of interrupted.ranks) rank.end(1);
  await interruptedEnd;
  expect(interrupted.supervisor).toMatchObject({ rootCause: undefined, interruptedBy: 'SIGINT' });

  const failed = supervise(2);
  const failedEnd = failed.supervisor.untilAllEnded();
  failed.ranks[1]!.end(4);
  await nextTick();
  failed.supervisor.receive('SIGINT');
  failed.ranks[0]!.end(1);
  await failedEnd;
  expect(failed.supervisor).toMatchObject({ rootCause: { rank: 1 }, interruptedBy: undefined });
});

test('another signal is passed on too; only the same again kills', async () => {
  const { ranks, supervisor } = supervise(2);
  const all = supervisor.untilAllEnded();
  supervisor.receive('SIGINT');
  supervisor.receive('SIGTERM');
  for (const rank of ranks) expect(rank.sent).toEqual(['SIGINT', 'SIGTERM']);
  supervisor.receive('SIGTERM');
  for (const rank of ranks) expect(rank.sent).toEqual(['SIGINT', 'SIGTERM', 'SIGKILL']);
  for (const rank of ranks) rank.end(null, 'SIGKILL');
  await all;
});
