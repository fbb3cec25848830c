import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stateOfProcess } from '../../src/transport/process-state';
import { until } from '../support/rings';

test('a process that runs, is stopped, or has ended', async () => {
  expect(stateOfProcess(process.pid)).toBe('running');
  expect(stateOfProcess(1)).toBe('running'); // which may belong to another user
  const child = spawn('sleep', ['1000']);
  const exited = once(child, 'exit');
  process.kill(child.pid!, 'SIGSTOP');
  await until(() => stateOfProcess(child.pid!) === 'stopped');
  process.kill(child.pid!, 'SIGKILL');
  await exited;
  expect(stateOfProcess(child.pid!)).toBe('ended');
});

test('one whose parent has not asked for its end has ended', async () => {
  // The child ends when its parent has become another program, which does not know of a child.
  const child = 'until grep -q sleep /proc/$$/comm; do :; done';
  const parent = spawn('sh', ['-c', `(${child}) & echo $!; exec sleep 1000`], { stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(line);
    await until(() => stateOfProcess(pid) === 'ended');
    expect(() => process.kill(pid, 0)).not.toThrow(); // the system still knows it
  } finally {
    parent.kill('SIGKILL');
  }
});
