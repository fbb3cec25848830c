import type { Communicator } from '../communicator/communicator';

/** Warns the user of something that is likely a mistake, on rank 0 only. */
export function warn(communicator: Communicator, words: string): void {
  if (communicator.launched.rank === 0) process.emitWarning(words, 'GradringWarning');
}
