import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { cleanUp, Program, ROOT, script, temporaryFolder, waitUntil } from '../launcher/support';

afterEach(cleanUp);

test.each(['auto', 'off'])('an elastic run ends when its ranks have ended, with encryption %s', async encryption => {
  const file = script(`
    const { Communicator } = require(${JSON.stringify(path.join(ROOT, 'dist/communicator/communicator.js'))});
    Communicator.connect().then(async ring => {
      await ring.barrier();
      console.log('rank', ring.rank, 'of', ring.worldSize);
      await ring.close();
    });`);
  const args = [path.join(ROOT, 'dist/cli.js'), 'run', '-n', '2', '--min', '1', '--no-prefix', file];
  const env = { ...process.env, GRADRING_ENCRYPTION: encryption };
  const { stdout } = await promisify(execFile)(process.execPath, args, { env, timeout: 30_000 });
  expect(stdout.split('\n').sort()).toEqual(['', 'rank 0 of 2', 'rank 1 of 2']);
});

describe('a process that takes the place of a lost rank', () => {
  /** Three ranks, of which rank 1 is killed; the others end when the launcher has said this. */
  async function runUntil(said: RegExp, newcomer: string): Promise<{ told: string[]; program: Program }> {
    const end = path.join(temporaryFolder(), 'end');
    const fixture = path.join(__dirname, '../elastic/fixtures/newcomer-fails.js');
    const program = new Program(
      [path.join(ROOT, 'dist/cli.js'), 'run', '-n3', '--min=2', '--max-restarts=3', '--no-prefix', fixture],
      { TEST_NEWCOMER: newcomer, TEST_END: end },
    );
    await waitUntil(String(said), () => said.test(program.stderr));
    writeFileSync(end, '');
    expect(await program.exited).toEqual({ exitCode: 0, signal: null });
    const told = program.stderr.slice(program.stderr.indexOf('gradring: ')).split('\n');
    return { told: told.map(line => line.replace(/ \(pid \d+\)/g, '')), program };
  }

  test('is not started again if it failed by itself before it was let in, and its error is told', async () => {
    const { told, program } = await runUntil(/is not started again|restart 2 of/, 'fails');
    const own = told.filter(line => line.startsWith('gradring: ') && !line.includes(' has formed: '));
    expect(own).toEqual([
      'gradring: rank 1 was lost (SIGKILL); 2 ranks continue.',
      'gradring: rank 1 is started again (restart 1 of 3), and joins when the others let it in.',
      'gradring: rank 1 was lost (exit code 1); 2 ranks continue.',
      expect.stringMatching(
        /^gradring: rank 1 is not started again: .* must call ring\.join\(…\) or checkpoint\.resume/,
      ),
      'gradring: the error of rank 1:',
    ]);
    const at = told.indexOf('gradring: the error of rank 1:');
    expect(told[at + 1]).toMatch(/^ {4}GradringError \[ERR_INVALID_ARGUMENT\]: .* must join the others, by ring\.join/);
    expect(told[at + 2]).toMatch(/^ {8}\(\d+ frames left out/);
    expect(
      program.stdout
        .split('\n')
        .filter(line => line.startsWith('rank'))
        .sort(),
    ).toEqual(['rank 0 has trained with 2 ranks', 'rank 2 has trained with 2 ranks']);
  });

  test('is ended if the others are done before they let it in, and that is told', async () => {
    const { told, program } = await runUntil(/is started again/, 'waits');
    expect(told.filter(line => line.includes('started again'))).toEqual([
      'gradring: rank 1 is started again (restart 1 of 3), and joins when the others let it in.',
      'gradring: rank 1 was started again, but comes too late, and is ended: the others were done before they let it in, as they do at the end of an epoch or in ring.commit.',
    ]);
    expect(program.stdout.match(/has trained with 2 ranks/g)).toHaveLength(2);
  });

  test('is started again if it was killed', async () => {
    const { told } = await runUntil(/is not started again/, 'is killed');
    const own = told.filter(line => /was lost|started again/.test(line));
    const lost = 'gradring: rank 1 was lost (SIGKILL); 2 ranks continue.';
    const started = (restart: number) =>
      `gradring: rank 1 is started again (restart ${restart} of 3), and joins when the others let it in.`;
    const no = 'gradring: rank 1 is not started again: no restart is left.';
    expect(own).toEqual([lost, started(1), lost, started(2), lost, started(3), lost, no]);
  });
});
