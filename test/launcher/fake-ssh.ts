import childProcess, { type SpawnOptions } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder } from './support';

/** A shell script that runs the command for the other host here. */
export const RUN_HERE = `
  export SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22"
  for command; do :; done
  exec sh -c "$command"`;

/** A folder with a program `ssh`, to stand first in PATH: this shell script. `say` writes a message of an agent. */
export function folderWithSsh(script: string): string {
  const folder = temporaryFolder();
  const say = `say() { printf '%s\\n' "$1"; }`;
  writeFileSync(path.join(folder, 'ssh'), `#!/bin/sh\n${say}\n${script}\n`, { mode: 0o755 });
  return folder;
}

/** From now on, what this process starts as `ssh` is this shell script, until `jest.restoreAllMocks`. */
export function replaceSsh(script: string): void {
  const ssh = path.join(folderWithSsh(script), 'ssh');
  const { spawn } = childProcess;
  jest
    .spyOn(childProcess, 'spawn')
    .mockImplementation(((command: string, args: string[], options: SpawnOptions) =>
      spawn(command === 'ssh' ? ssh : command, args, options)) as typeof spawn);
}

/** Waits for a message of the launcher. */
export const hear = (kind: string): string => `while read -r m; do case $m in *'"kind":"${kind}"'*) break;; esac; done`;

/** A shell script that does what an agent with one rank does, up to its start. */
export const STARTED = `
  ${hear('assign')}; say '{"kind":"ready"}'
  ${hear('start')}; say '{"kind":"started","rank":0,"pid":7}'`;

export const ENDED = '{"kind":"ended","outcome":{"rank":0,"pid":7,"exitCode":0,"signal":null,"afterMs":1}}';

export const outputOf = (text: string): string =>
  `{"kind":"output","rank":0,"stream":"stdout","base64":"${Buffer.from(text).toString('base64')}"}`;

export const outputEndOf = (stream: 'stdout' | 'stderr'): string =>
  `{"kind":"output end","rank":0,"stream":"${stream}"}`;
