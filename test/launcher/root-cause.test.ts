import { runBody } from './root-causes';
import { cleanUp } from './support';

afterEach(cleanUp);

// Other causes, and where there is none: test/slow/root-cause.test.ts.
test('a rank that exits with 0 before the others are done', async () => {
  const { summary, exitCode, rootCause, stderr } = await runBody(
    `
    const ring = await connect();
    await ring.barrier();
    if (rank === 1) process.exit(0);
    await ring.barrier();`,
    { ranks: 3 },
  );
  expect(summary).toMatch(
    /^gradring: rank 1 \(pid \d+\) exited with code 0 after \d+\.\d s, before the others were done; root cause\. The other ranks: rank 0 exit 1, rank 2 exit 1\.$/,
  );
  expect(stderr).toMatch(
    /^gradring: the error of rank [02]:\n {4}GradringError \[ERR_PEER_LOST\]: .*Rank 1 .*has left/m,
  );
  expect({ exitCode, rootCause }).toMatchObject({ exitCode: 1, rootCause: { rank: 1, exitCode: 0 } });
});

test('a rank that ends without a call of connect is told of at once, and the others do not wait for it', async () => {
  const { summary, exitCode, rootCause, ranks } = await runBody(`if (rank !== 1) await connect();`, { ranks: 3 });
  expect(summary).toMatch(
    /^gradring: rank 1 \(pid \d+\) exited with code 0 after \d+\.\d s without a call of connect\(\), but (ranks 0, 2 wait|rank [02] waits) for it there; root cause\. The other ranks: rank 0 SIGTERM, rank 2 SIGTERM\.$/,
  );
  expect({ exitCode, rootCause }).toMatchObject({ exitCode: 1, rootCause: { rank: 1, exitCode: 0 } });
  expect(ranks).toHaveLength(3);
});
