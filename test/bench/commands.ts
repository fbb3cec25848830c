import { gradringHere } from '../launcher/run-here';
import { gradring } from '../launcher/support';

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
