// The thread that `rank-guard` starts: waits for the launcher's end, and then ends the rank and its children.
import { Socket } from 'node:net';
import { workerData } from 'node:worker_threads';
import type { GuardData } from './rank-guard-pipe';
import { signalGroup } from './signals';

const pipe = new Socket({ fd: (workerData as GuardData).fd, readable: true, writable: false });
pipe.on('error', () => {}); // A broken pipe closes as well.
pipe.on('close', () => signalGroup(process.pid, 'SIGKILL'));
pipe.resume(); // Nothing is ever sent, but only a stream that is read notices its end.
