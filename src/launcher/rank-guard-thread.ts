// The thread that `rank-guard` starts: waits for the launcher's end, and then removes its folder, and ends the rank and
// its children.
import { Socket } from 'node:net';
import { workerData } from 'node:worker_threads';
import { type GuardData, removeFolder } from './rank-guard-shared';
import { signalGroup } from './signals';

const { fd, folder } = workerData as GuardData;

const pipe = new Socket({ fd, readable: true, writable: false });
pipe.on('error', () => {}); // A broken pipe closes as well.
pipe.on('close', () => {
  if (folder !== undefined) removeFolder(folder);
  signalGroup(process.pid, 'SIGKILL');
});
pipe.resume(); // Nothing is ever sent, but only a stream that is read notices its end.
