import { existsSync } from 'node:fs';
import { cleanUp, gradring, isRunning, SAY_READY, script, waitUntil } from './support';
import { casesOf } from '../support/cases';

// The ranks must end although nobody can tell them to: the launcher is killed by SIGKILL.

afterEach(cleanUp);

const RANKS = casesOf<[string, string]>(
  [['compute', `${SAY_READY} for (;;);`]],
  [
    ['wait for events', `setInterval(() => {}, 1000); ${SAY_READY}`],
    ['are blocked', `${SAY_READY} Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);`],
    [
      'ignore all signals',
      `for (const s of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(s, () => {});
       setInterval(() => {}, 1000); ${SAY_READY}`,
    ],
  ],
);

/** The ranks put something into their folder for sockets. */
const USE_FOLDER = `
  const fs = require('node:fs');
  fs.mkdirSync(process.env.GRADRING_SOCKET_FOLDER + '/gradring-' + process.env.RANK);
  fs.writeSync(1, 'folder ' + process.env.GRADRING_SOCKET_FOLDER + '\\n');`;

test.each(RANKS)('ranks that %s do not outlive their launcher, nor does their folder', async (_what, source) => {
  const launcher = gradring('run', '-n', '2', script(`${USE_FOLDER} ${source}`));
  const pids = await launcher.readyRanks(2);
  expect(pids.filter(isRunning)).toEqual(pids);
  const folder = /folder (.+)/.exec(launcher.stdout)![1]!;
  expect(existsSync(folder)).toBe(true);
  launcher.child.kill('SIGKILL');
  await waitUntil('the ranks to end', () => !pids.some(isRunning));
  expect(existsSync(folder)).toBe(false);
});

test('nor do the children of a rank', async () => {
  const launcher = gradring(
    'run',
    '-n',
    '1',
    script(`
      const child = require('node:child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
      child.on('spawn', () => { require('node:fs').writeSync(1, 'child ' + child.pid + '\\n'); ${SAY_READY} });`),
  );
  const [rank] = await launcher.readyRanks(1);
  const child = Number(/child (\d+)/.exec(launcher.stdout)![1]);
  expect([rank!, child].filter(isRunning)).toEqual([rank, child]);
  launcher.child.kill('SIGKILL');
  await waitUntil('both to end', () => !isRunning(rank!) && !isRunning(child));
});

test('a script that has nothing left to do ends as it would without the guard', async () => {
  const launcher = gradring('run', '-n', '1', script(`process.on('exit', code => console.log('exit ' + code));`));
  expect(await launcher.exited).toEqual({ exitCode: 0, signal: null });
  expect(launcher.stdout).toBe('[0] exit 0\n');
});
