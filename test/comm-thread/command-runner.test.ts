import type { CommandRunner } from '../../src/comm-thread/command-runner';
import { GradringError } from '../../src/errors';
import { closeAllSockets } from '../../src/transport/control/open-sockets';
import { Purpose } from '../../src/wire/frame';
import { failureOf } from '../support/rings';
import { runnerOf } from '../support/runners';
import { openTransports } from '../support/transports';

afterAll(closeAllSockets);

const purpose = Purpose.Call;

async function ranksOf(worldSize: number, elementCount = 6) {
  const { ring, close } = await openTransports(worldSize);
  const ranks = ring.map(transport => {
    const made = runnerOf(transport, 4 * elementCount);
    const array = { type: 'float32', data: made.data, elementCount } as const;
    const values = new Float32Array(made.memory.buffer, made.data, elementCount);
    return { ...made, transport, array, values: values.fill(transport.rank) };
  });
  return { ranks, close };
}

const barrier = (runner: CommandRunner) => runner.run('barrier', { purpose });

test('a mean is a sum divided by the ranks; of a reduce-scatter, only the chunk of this rank is', async () => {
  const { ranks, close } = await ranksOf(2);
  await Promise.all(ranks.map(({ runner, array }) => runner.run('allReduce', { array, reduction: 'mean', purpose })));
  for (const { values } of ranks) expect([...values]).toEqual([0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);

  const scattered = await Promise.all(
    ranks.map(({ runner, array }) => runner.run('reduceScatter', { array, reduction: 'mean' })),
  );
  expect(scattered).toEqual([{ start: 0, count: 3 }, { start: 3, count: 3 }]); // prettier-ignore
  ranks.forEach(({ values }, rank) => expect([...values].slice(3 * rank, 3 * rank + 3)).toEqual([0.5, 0.5, 0.5]));
  await close();
});

test('an error that has no code is ERR_COMM_THREAD, and ends the ring on all ranks', async () => {
  const { ranks, close } = await ranksOf(2, 60_000); // so much that rank 0 needs the sums of rank 1
  ranks[1]!.kernels.reduce = () => {
    throw new RangeError('a planted bug');
  };
  const failures = await Promise.all(
    ranks.map(({ runner, array }) => failureOf(runner.run('allReduce', { array, reduction: 'sum', purpose }))),
  );
  failures.forEach(({ code, message, details }, rank) => {
    expect(code).toBe('ERR_COMM_THREAD');
    expect(message).toBe(
      `Rank 1 failed in allReduce(sum, float32[60000]): RangeError: a planted bug (Rank ${rank} was in allReduce(sum, float32[60000]) (collective 0).)`,
    );
    expect(details).toMatchObject({ rank: 1, operation: 'allReduce(sum, float32[60000])' });
  });
  await close();
});

test('after a failure between two collectives, each later one fails with the same error', async () => {
  const { ranks, close } = await ranksOf(2);
  const [{ runner, transport }] = ranks as [(typeof ranks)[number]];
  await Promise.all(ranks.map(rank => barrier(rank.runner)));
  await transport.fail(new GradringError('ERR_PROTOCOL', 'Rank 1 broke the protocol.', { rank: 1 }));
  const words = 'The ring has failed and cannot be used any more: Rank 1 broke the protocol.';
  const failed = async (run: () => Promise<unknown>) => {
    const { code, message, details } = await failureOf(run());
    return { code, message, details };
  };
  const awaited = await failed(() => runner.run('awaitOthers', {}));
  expect(awaited).toEqual({ code: 'ERR_PROTOCOL', message: words, details: { rank: 1 } });
  const calls: [operation: string, run: () => Promise<unknown>][] = [
    ['barrier()', () => barrier(runner)],
    ['receive(rank 1, tag 7)', () => runner.run('receive', { from: 1, tag: 7 })],
    ['barrier()', () => barrier(runner)],
  ];
  for (const [operation, run] of calls) {
    const expected = { code: 'ERR_PROTOCOL', message: `${words} (Rank 0 called ${operation}.)` };
    expect(await failed(run)).toEqual({ ...expected, details: { rank: 1, operation } });
  }
  await close();
});

test('in another ring the collectives are counted anew, also after the first has failed', async () => {
  const [former, next] = [await ranksOf(3), await ranksOf(2)];
  await Promise.all(former.ranks.map(({ runner }) => barrier(runner)));
  await former.ranks[2]!.transport.fail(new GradringError('ERR_PROTOCOL', 'Rank 2 has failed.'));
  const runners = former.ranks.slice(0, 2).map(({ runner }) => runner);
  for (const runner of runners) expect((await failureOf(barrier(runner))).code).toBe('ERR_PROTOCOL');

  runners[0]!.moveTo(next.ranks[0]!.transport);
  await Promise.all([barrier(runners[0]!), barrier(next.ranks[1]!.runner)]); // the second counts from 0
  expect(await runners[0]!.run('askMedia', {})).toEqual({ links: ['tcp', 'tcp'], bulk: ['tcp', 'tcp'] });
  await Promise.all([former.close(), next.close()]);
});
