// Preloaded (`node --require`) into each rank, and into the network lab of a benchmark. They must not outlive the
// launcher, not even if it was killed by SIGKILL and could forward nothing. The launcher holds the other end of a pipe.
// When the pipe ends, so does this process. A thread of its own watches it, because the main thread may be blocked
// (in `Atomics.wait`, or in a long computation).
import path from 'node:path';
import { isMainThread, Worker } from 'node:worker_threads';
import { LAUNCHER_PIPE_VARIABLE } from '../environment/launcher-pipe';
import { GUARD_FD_VARIABLE, GUARD_FOLDER_VARIABLE, type GuardData, removeFolder } from './rank-guard-shared';

const { [GUARD_FD_VARIABLE]: fd, [GUARD_FOLDER_VARIABLE]: folder } = process.env;

// Worker threads and forked processes of the rank inherit its `--require`, too, but need no guard: threads end with the
// rank, and in a forked process the descriptor is something else. So the variables are removed.
if (isMainThread && fd !== undefined) {
  delete process.env[GUARD_FD_VARIABLE];
  delete process.env[GUARD_FOLDER_VARIABLE];
  process.env[LAUNCHER_PIPE_VARIABLE] = `${process.pid} ${fd}`;
  const workerData: GuardData = { fd: Number(fd), folder };
  const thread = new Worker(path.join(__dirname, 'rank-guard-thread.js'), { workerData, execArgv: [], env: {} });
  thread.unref(); // A script that has nothing left to do ends as it would without the guard.
  const launcher = process.ppid;
  process.on('exit', () => {
    if (folder !== undefined && process.ppid !== launcher) removeFolder(folder);
  });
}
