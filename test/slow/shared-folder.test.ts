import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { cleanUp, gradring, temporaryFolder, waitUntil } from '../launcher/support';

afterEach(cleanUp);

const PROGRAM = path.join(__dirname, '../tensorflow/fixtures/shared-folder.js');

test('a second run in a folder is refused, the first goes on, and after a kill the next one resumes at once', async () => {
  const folder = temporaryFolder();
  const [dir, end] = [path.join(folder, 'checkpoints'), path.join(folder, 'end')];
  const run = () => gradring('run', '-n', '2', PROGRAM, dir, end);
  const first = run();
  const saved = () => Number([...first.stdout.matchAll(/^\[0\] saved (\d+)$/gm)].at(-1)?.[1] ?? 0);
  await waitUntil('the first run to save', () => saved() > 0);
  const lock = JSON.parse(readFileSync(path.join(dir, 'gradring.lock'), 'utf8')) as { processes: { pid: number }[] };
  const pids = lock.processes.map(({ pid }) => pid);

  const second = run();
  expect(await second.exited).toMatchObject({ exitCode: 1 });
  expect(second.stderr).toContain('ERR_CHECKPOINT_IN_USE');
  expect(second.stderr).toMatch(new RegExp(`${dir} is in use by another run .*: ${PROGRAM}, process ${pids[0]} on `));
  expect(second.stdout).toBe('');
  const before = saved();
  await waitUntil('the first run to go on', () => saved() > before + 2);

  for (const pid of [first.child.pid!, ...pids]) process.kill(pid, 'SIGKILL');
  await first.exited;
  writeFileSync(end, '');
  const third = run();
  expect(await third.exited).toMatchObject({ exitCode: 0 });
  const last = Number(/^\[0\] resumed (\d+)$/m.exec(third.stdout)![1]);
  expect(last).toBeGreaterThanOrEqual(saved());
  const saves = [last, last + 1].map(step => expect.stringMatching(new RegExp(`^save-\\d+-step-${step}$`)) as string);
  expect(readdirSync(dir).sort()).toEqual(saves); // and no lock any more
});
