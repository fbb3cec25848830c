import { spawn } from 'node:child_process';
import { GradringError } from '../errors';

/** How a program ended. */
export interface Ended {
  /** 0 if it succeeded; −1 if it could not be started. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** The last lines of its error output, or why it could not be started. */
  readonly reason: string;
}

/** Where and with what a program runs. */
export interface RunOptions {
  readonly cwd?: string;
  /** In addition to the variables of this process. */
  readonly env?: NodeJS.ProcessEnv;
}

const REASON_LINES = 12;

/** Runs a program to its end, without a shell. Ctrl-C also ends the program. */
export function runProgram(command: string, args: readonly string[], { cwd, env }: RunOptions = {}): Promise<Ended> {
  return new Promise(resolve => {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', text => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', text => (stderr += text));
    child.on('error', error => resolve({ code: -1, stdout, stderr, reason: error.message }));
    child.on('close', (code, signal) => {
      const said = lastLines(stderr.trim() || stdout.trim());
      resolve({ code: code ?? 1, stdout, stderr, reason: said || (signal === null ? `exit code ${code}` : signal) });
    });
  });
}

/** The last lines of a text, for an error message. */
export function lastLines(text: string): string {
  return text.split('\n').slice(-REASON_LINES).join('\n');
}

/** Something was not found, not built, or does not work. The message says what is missing and what to do. */
export function linkFailure(message: string): GradringError {
  return new GradringError('ERR_TENSORFLOW', message);
}
