import { constants } from 'node:os';

/** The signals that a launcher passes on: Ctrl-C, the request of a job manager to end, a closed terminal. */
export const FORWARDED_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** It tells ranks to save and stop. The launcher passes it on to those that do so, and ends no other. */
export const STOP_SIGNAL = 'SIGUSR1';
export type ForwardedSignal = (typeof FORWARDED_SIGNALS)[number];

const onStop = new Set<() => void>();
let hearsStop = false;

/** Calls `handler` when this process gets {@link STOP_SIGNAL}, until the function is called that it returns. */
export function onStopSignal(handler: () => void): () => void {
  onStop.add(handler);
  // It stays: without a listener, the signal would end this process from then on.
  if (!hearsStop) process.on(STOP_SIGNAL, () => onStop.forEach(each => each()));
  hearsStop = true;
  return () => void onStop.delete(handler);
}

/** What a shell shows for a process that died of the signal: 128 + its number. */
export function signalExitCode(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/** Sends the signal to one process, if there still is one. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended meanwhile, which is what all signals here ask for.
  }
}

/** Sends the signal to a process and all its children that did not leave its group; the process must lead it. */
export function signalGroup(leader: number, signal: NodeJS.Signals): void {
  signalProcess(process.platform === 'win32' ? leader : -leader, signal); // Windows has no groups.
}
