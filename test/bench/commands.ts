import { readFileSync } from 'node:fs';
import { gradringHere } from '../launcher/run-here';
import { gradring, isRunning, waitUntil } from '../launcher/support';

/** What `gradring bench …` prints when it succeeds, within this process. */
export async function benchOutput(...args: string[]): Promise<string> {
  const { stdout, ...rest } = await gradringHere('bench', ...args);
  expect(rest).toEqual({ exitCode: 0, stderr: '' });
  return stdout;
}

/** The same in a process of its own. */
export async function benchOutputOfProcess(...args: string[]): Promise<string> {
  const program = gradring('bench', ...args);
  expect(await program.exited).toEqual({ exitCode: 0, signal: null });
  expect(program.stderr).toBe('');
  return program.stdout;
}

/** `gradring bench …` refuses a wrong command line in one line, with exit code 2. */
export async function expectBenchRefusal(args: readonly string[], words: string | RegExp): Promise<void> {
  const { exitCode, stdout, stderr } = await gradringHere('bench', ...args);
  expect(exitCode).toBe(2);
  expect(stderr).toMatch(words);
  expect(stderr).toMatch(/^gradring: ERR_INVALID_ARGUMENT: .*\n$/);
  expect(stdout).toBe('');
}

/** What `gradring bench …` prints if Ctrl-C ends it when so many ranks run. None of them is left. */
export async function interruptedBench(args: readonly string[], ranks = 1): Promise<string> {
  const program = gradring('bench', ...args);
  const { pid } = program.child;
  const children = (): number[] =>
    readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  let started: number[] = [];
  await waitUntil('the ranks to run', () => (started = children()).length >= ranks);
  program.child.kill('SIGINT');
  expect(await program.exited).toEqual({ exitCode: 130, signal: null });
  await waitUntil('the ranks to end', () => !started.some(isRunning));
  return program.stdout;
}
