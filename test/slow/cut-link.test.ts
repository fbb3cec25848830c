import { spawnSync } from 'node:child_process';
import { script, waitUntil } from '../launcher/support';
import { expectAgreed, type FaultyRun, PRELUDE, raisedIn, untilFailure } from '../faults/support';
import { finished, netlabWith, ownLab, removeLabs } from './support/netlab';
import { describeWith } from './support/programs';

afterEach(removeLabs);

describeWith(['ip'], 'a rank that the network does not reach any more', () => {
  const loseTwo: Record<string, (lab: string, prefix: string) => unknown> = {
    'its cable is out': lab => finished('cut', '2', '--name', lab),
    'what it sends is lost': (lab, prefix) =>
      ['0/25', '128/25'].map(half =>
        spawnSync('ip', ['-n', `nl-${lab}-2`, 'route', 'add', 'blackhole', `${prefix}${half}`]),
      ),
  };

  test.each(Object.keys(loseTwo))('%s', async how => {
    const lab = ownLab('x');
    const { stdout } = await finished('up', '4', '--name', lab);
    const [, prefix] = /, (10\.77\.\d+\.)1 … /.exec(stdout)!;
    const file = script(`${PRELUDE}\n(async () => {\n${untilFailure()}\n})();`);
    const env = { GRADRING_ENCRYPTION: 'off', GRADRING_HEARTBEAT_TIMEOUT_MS: '2000', GRADRING_TIMEOUT_MS: '60000' };
    const run = netlabWith(env, 'exec', '--name', lab, '--no-prefix', '--', process.execPath, file);
    await waitUntil('all ranks to be ready', () => run.stdout.match(/^rank \d ready/gm)?.length === 4);
    await loseTwo[how]!(lab, prefix!);
    const { exitCode } = await run.exited;
    const raised = raisedIn(run.stdout);
    const ended: FaultyRun = {
      ...{ exitCode, stdout: run.stdout, stderr: run.stderr, raised },
      ...{ left: [], orphans: [], summary: '' },
    };
    expectAgreed(ended, [0, 1, 3], { code: 'ERR_PEER_LOST', rank: 2 });
    for (const rank of [0, 1, 3]) expect(raised[rank]!.address).toContain(`//${prefix}3:`);
    // All that rank 2 can see, if it is not ended before it has noticed.
    const seen = raised[2] && `${raised[2].code} ${raised[2].rank}`;
    expect([undefined, 'ERR_PEER_LOST 1', 'ERR_PEER_LOST 3']).toContain(seen);
    expect(exitCode).toBe(1);
  });
});
