import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expectAgreed, runFaulty, untilFailure } from '../faults/support';
import { cleanUp, isRunning, temporaryFolder, waitUntil } from '../launcher/support';

afterEach(cleanUp);

const SURVIVORS = [0, 1, 3];
const OPERATION = 'allReduce(sum, float32[100000])';

describe('a rank is stopped', () => {
  test('and another ends meanwhile with process.exit(0): it does so in time, and not by a crash', async () => {
    const file = path.join(temporaryFolder(), 'stopped');
    const source = `
      const ring = await Communicator.connect();
      await ring.barrier();
      ready();
      while (!require('node:fs').existsSync(${JSON.stringify(file)})) await sleep(5);
      if (ring.rank === 0) process.exit(0);
      await sleep(20_000);`;
    const run = await runFaulty(2, source, {
      args: ['--grace-ms', '500'],
      during: async (pids, output) => {
        process.kill(pids[1]!, 'SIGSTOP');
        writeFileSync(file, '');
        await waitUntil('rank 0 to end', () => !isRunning(pids[0]!));
        process.kill(pids[1]!, 'SIGKILL');
        expect(output.stderr).not.toContain('terminate called');
      },
    });
    expect(run.summary).toMatch(/^gradring: rank 1 .*SIGKILL.*rank 0 exit 0/);
  });

  test.each([
    [4, 2],
    [2, 1],
  ])(
    'for longer than the heartbeat timeout; when it goes on it disturbs nobody, and ends: of %s, rank %s',
    async (worldSize, stopped) => {
      const survivors = Array.from({ length: worldSize }, (_, rank) => rank).filter(rank => rank !== stopped);
      const run = await runFaulty(worldSize, untilFailure(), {
        env: { GRADRING_HEARTBEAT_TIMEOUT_MS: '3000' },
        args: ['--grace-ms', '20000'],
        during: async (pids, output) => {
          process.kill(pids[stopped]!, 'SIGSTOP');
          await waitUntil('the others to raise', () => output.stdout.match(/^raised/gm)?.length === survivors.length);
          process.kill(pids[stopped]!, 'SIGCONT');
        },
      });
      expectAgreed(run, survivors, { code: 'ERR_PEER_LOST', rank: stopped, operation: OPERATION });
      expect(run.exitCode).toBe(1);
      for (const rank of survivors) {
        expect(run.raised[rank]!.message).toMatch(
          /^Rank \d .* has been silent for \d+ ms; the limit is 3000 ms \(heartbeatTimeoutMs\)\. Its process \(pid \d+\) still exists, but is stopped\./,
        );
      }
      // Where it is slow to notice, the launcher ends it: three seconds after the others.
      expect(run.summary).toMatch(
        new RegExp(
          `^gradring: rank ${stopped} \\(pid \\d+\\) did not answer, though its process still existed when rank [013] failed .* root cause\\. It then ended with (exit code 1|SIGTERM)\\. `,
        ),
      );
    },
  );

  test('while the others close their rings: both its neighbours notice, and leave', async () => {
    const file = path.join(temporaryFolder(), 'go');
    const source = `
      const ring = await Communicator.connect();
      await ring.barrier();
      ready();
      while (!require('node:fs').existsSync(${JSON.stringify(file)})) await sleep(5);
      await ring.close();
      say('closed');`;
    const { exitCode } = await runFaulty(3, source, {
      env: { GRADRING_HEARTBEAT_TIMEOUT_MS: '3000' },
      during: async (pids, output) => {
        process.kill(pids[1]!, 'SIGSTOP');
        writeFileSync(file, '');
        await waitUntil('the others to leave', () => output.stdout.match(/^closed/gm)?.length === 2);
        process.kill(pids[1]!, 'SIGCONT');
      },
    });
    expect(exitCode).toBe(0);
  });

  test('and the heartbeat timeout is longer than the deadline: the error names it, and the launcher ends it', async () => {
    const run = await runFaulty(4, untilFailure(), {
      env: { GRADRING_HEARTBEAT_TIMEOUT_MS: '60000', GRADRING_TIMEOUT_MS: '10000' },
      args: ['--grace-ms', '500'],
      during: pids => void process.kill(pids[2]!, 'SIGSTOP'),
    });
    expectAgreed(run, SURVIVORS, { code: 'ERR_TIMEOUT', rank: 2, operation: OPERATION });
    for (const rank of SURVIVORS) expect(run.raised[rank]!.message).toMatch(/rank 2 does not answer/);
    expect(run.exitCode).toBe(1);
    expect(run.summary).toMatch(/^gradring: rank 2 .* was late, .* root cause\. It then ended with SIGKILL\./);
  });
});
