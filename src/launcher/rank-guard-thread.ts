// The thread that `rank-guard` starts: waits for the launcher's end, and then removes its folder, and ends the rank and its children.
import { rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { workerData } from 'node:worker_threads';
import type { GuardData } from './rank-guard-pipe';
import { signalGroup } from './signals';

const { fd, folder } = workerData as GuardData;

const pipe = new Socket({ fd, readable: true, writable: false });
pipe.on('error', () => {}); // A broken pipe closes as well.
pipe.on('close', () => {
  try {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  } finally {
    signalGroup(process.pid, 'SIGKILL');
  }
});
pipe.resume(); // Nothing is ever sent, but only a stream that is read notices its end.
