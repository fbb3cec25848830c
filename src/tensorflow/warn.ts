import type { Communicator } from '../communicator/communicator';

/** Tells the user something, on rank 0 only. */
export function inform(communicator: Communicator, words: string): void {
  if (communicator.launched.rank === 0) process.stderr.write(`gradring: ${words}\n`);
}

/** Warns the user of a likely mistake, on rank 0 only. */
export function warn(communicator: Communicator, words: string): void {
  if (communicator.launched.rank === 0) process.emitWarning(words, 'GradringWarning');
}
