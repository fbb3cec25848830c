import { runBody } from '../launcher/root-causes';
import { cleanUp, UNCONNECTED } from '../launcher/support';

/** Which rank the launcher's last line names. */

afterEach(cleanUp);

test('a rank that all ranks raise an error about', async () => {
  const { summary, stderr, rootCause } = await runBody(`
    const ring = await connect();
    await ring.barrier();
    throw new GradringError('ERR_NON_FINITE', 'The gradient holds NaN on rank 1.', { rank: 1 });`);
  expect(summary).toMatch(/^gradring: rank 1 \(pid \d+\) failed with exit code 1 after .* s; root cause\. /);
  expect(stderr).toMatch(/^gradring: the error of rank 1:\n.*NaN on rank 1/m);
  expect(rootCause).toMatchObject({ rank: 1, exitCode: 1 });
});

test('a rank that comes late: its process still exists, and is ended', async () => {
  const { summary, exitCode, rootCause } = await runBody(
    `const ring = await connect({ timeoutMs: 10_000 });
     await ring.barrier();
     if (rank === 1) setInterval(() => undefined, 1_000);
     else await ring.barrier();`,
    { failureGraceMs: 0 },
  );
  expect(summary).toMatch(
    /^gradring: rank 1 \(pid \d+\) was late, though its process still existed when rank 0 failed after .* s; root cause\. It then ended with SIGTERM\. The other ranks: /,
  );
  expect({ exitCode, rootCause }).toMatchObject({ exitCode: 1, rootCause: { rank: 1, signal: 'SIGTERM' } });
});

test('the error of a group names the rank as its group counts, and the launcher as the run does', async () => {
  const { summary, stderr, rootCause } = await runBody(
    `const ring = await connect({ timeoutMs: 10_000 });
     const half = await (await ring.group(rank < 1 ? 'others' : 'three')).group(rank < 2 ? null : 'two');
     await ring.barrier();
     if (rank === 3) setInterval(() => undefined, 1_000);
     if (rank === 2) await half.barrier();`,
    { ranks: 4, failureGraceMs: 0 },
  );
  expect(summary).toMatch(/^gradring: rank 3 \(pid \d+\) was late, .* when rank 2 failed after .* s; root cause\./);
  expect(stderr).toMatch(
    /^ {4}GradringError \[ERR_TIMEOUT\]: .*rank 1 has not called it.* Rank 1 of this group is rank 3 of the run\.$/m,
  );
  expect(rootCause).toMatchObject({ rank: 3 });
});

test('nor is a rank of the run blamed for what a group of other ranks has found', async () => {
  const { summary, rootCause } = await runBody(
    `const ring = await connect();
     const half = await ring.group(rank < 2 ? 'first' : 'second');
     if (rank < 2) await ring.barrier();
     else await half.allOrNone(async () => rank);`,
    { ranks: 4, failureGraceMs: 0 },
  );
  expect(summary).toMatch(/^gradring: rank [23] \(pid \d+\) failed with exit code 1 /);
  expect(rootCause?.rank).toBeGreaterThan(1);
});

test('where ranks only differ, none is called the cause', async () => {
  const { summary } = await runBody(`
    const ring = await connect();
    if (rank === 1) await ring.barrier();
    else await ring.allReduce(new Float32Array(8));`);
  expect(summary).toMatch(
    /^gradring: rank \d \(pid \d+\) was the first that failed with exit code 1 after \d+\.\d s\. /,
  );
});

describe('connect', () => {
  test('a rank that ends without it is told of also if an agent starts the ranks, as on other hosts', async () => {
    const hosts = [{ host: 'localhost', ranks: 2 }];
    const { summary, exitCode } = await runBody('if (rank !== 1) await connect();', {
      ranks: undefined,
      hosts,
    } as never);
    expect(summary).toMatch(
      /^gradring: rank 1 \(on localhost, pid \d+\) exited with code 0 .* without a call of connect\(\), but rank 0 waits for it there; root cause/,
    );
    expect(exitCode).toBe(1);
  });

  test('nor for one that ends before the others call it a second time', async () => {
    const { summary } = await runBody(`
      await (await connect()).close();
      if (rank !== 1) await connect();`);
    expect(summary).toMatch(
      /^gradring: rank 1 \(pid \d+\) exited with code 0 after \d+\.\d s, but rank 0 waits for it in connect\(\); root cause\./,
    );
  });

  test.each([
    ['all call it, one after the other', 'await new Promise(done => setTimeout(done, 200 * rank)); await (await connect()).close();'],
    ['some end after the ring has formed', 'const ring = await connect(); if (rank === 1) return; await new Promise(done => setTimeout(done, 300)); await ring.close();'],
    ['the script describes rings of its own', 'if (rank !== 0) await (await connect({ rank: 0, worldSize: 1 })).close();'],
  ])('if %s, there is nothing to tell', async (_, source) => {
    const { exitCode, stderr } = await runBody(source);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  }); // prettier-ignore

  test('if no rank calls it, that is told at the end', async () => {
    expect(await runBody('')).toMatchObject({ exitCode: 0, stderr: `${UNCONNECTED}\n` });
    expect(await runBody('', { ranks: 1 })).toMatchObject({ exitCode: 0, stderr: '' });
    expect((await runBody('if (rank === 1) process.exit(4)')).stderr).not.toContain('connect()');
  });
});
