import { format } from 'node:util';
import { main } from '../../src/cli';

/** How a command ended, and what it wrote. */
export interface CommandEnd {
  readonly exitCode: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * `gradring …` within this process, for commands that run in one process: to start another takes most of the time of
 * those that only print help or refuse their options. That the program itself does as its `main`, is shown by a test
 * of each command that starts it.
 */
export async function gradringHere(...args: string[]): Promise<CommandEnd> {
  const said = { stdout: '', stderr: '' };
  const say =
    (stream: keyof typeof said) =>
    (...words: unknown[]) =>
      void (said[stream] += `${format(...words)}\n`);
  const write = (stream: keyof typeof said) => (text: unknown, encoding?: unknown, done?: unknown) => {
    said[stream] += String(text);
    for (const callback of [encoding, done]) if (typeof callback === 'function') callback();
    return true;
  };
  const spies = [
    jest.spyOn(console, 'log').mockImplementation(say('stdout')),
    jest.spyOn(console, 'error').mockImplementation(say('stderr')),
    jest.spyOn(process.stdout, 'write').mockImplementation(write('stdout')),
    jest.spyOn(process.stderr, 'write').mockImplementation(write('stderr')),
  ];
  const { exitCode: before } = process;
  process.exitCode = 0;
  try {
    await main(args);
    return { exitCode: process.exitCode, ...said };
  } finally {
    process.exitCode = before;
    for (const spy of spies) spy.mockRestore();
  }
}
