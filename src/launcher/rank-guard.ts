// Preloaded (`node --require`) into each rank, which must not outlive its launcher, and into the network lab of a
// benchmark: not even if the launcher was killed by SIGKILL and could forward nothing. The launcher holds the other end
// of a pipe, and its end is the signal. A thread of its own watches it, because the main thread may be blocked (in
// `Atomics.wait`, or in a long computation).
import path from 'node:path';
import { isMainThread, Worker } from 'node:worker_threads';
import { GUARD_FD_VARIABLE, GUARD_FOLDER_VARIABLE, type GuardData, removeFolder } from './rank-guard-shared';

const { [GUARD_FD_VARIABLE]: fd, [GUARD_FOLDER_VARIABLE]: folder } = process.env;

// Worker threads and forked processes of the rank inherit its `--require` too. They are not to be guarded: the
// threads end with the rank, and in a forked process the descriptor is another thing, so the variables go.
if (isMainThread && fd !== undefined) {
  delete process.env[GUARD_FD_VARIABLE];
  delete process.env[GUARD_FOLDER_VARIABLE];
  const workerData: GuardData = { fd: Number(fd), folder };
  const thread = new Worker(path.join(__dirname, 'rank-guard-thread.js'), { workerData, execArgv: [], env: {} });
  thread.unref(); // A script that has nothing left to do ends as it would without the guard.
  const launcher = process.ppid;
  process.on('exit', () => {
    if (folder !== undefined && process.ppid !== launcher) removeFolder(folder);
  });
}
