import type { Communicator } from '../communicator/communicator';

/** Tells the user something, on rank 0 only. */
export function inform(communicator: Communicator, words: string): void {
  if (communicator.launched.rank === 0) process.stderr.write(`gradring: ${words}\n`);
}

const warned = new Set<string>();

/** Like {@link warn}, but gives each text only once in a process: a program may wrap several optimizers. */
export function warnOnce(communicator: Communicator, words: string): void {
  if (warned.has(words)) return;
  warned.add(words);
  warn(communicator, words);
}

/** Warns the user of a likely mistake, on rank 0 only. */
export function warn(communicator: Communicator, words: string): void {
  if (communicator.launched.rank === 0) warnHere(words);
}

/** Warns the user of what only this rank knows. */
export function warnHere(words: string): void {
  process.emitWarning(words, 'GradringWarning');
}
