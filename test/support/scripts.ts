import { execFile } from 'node:child_process';
import path from 'node:path';

/** How a script ended, and what it wrote. */
export interface ScriptEnd {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one of scripts/, to its end. */
export function runScript(name: string, ...args: string[]): Promise<ScriptEnd> {
  const script = path.join(__dirname, '../../scripts', `${name}.js`);
  return new Promise(resolve =>
    execFile(process.execPath, [script, ...args], { maxBuffer: 2 ** 26 }, (error, stdout, stderr) =>
      resolve({ exitCode: Number(error?.code ?? 0), stdout, stderr }),
    ),
  );
}
