import { existsSync } from 'node:fs';
import path from 'node:path';
import { A_RATE, bitsPerSecondOf } from '../../environment/link-rate';
import { GradringError, invalidArgument } from '../../errors';
import { spawnGuarded } from '../../launcher/guarded-process';
import { FORWARDED_SIGNALS, signalExitCode, signalProcess } from '../../launcher/signals';

/** The network lab of the package, beside dist/. */
const NETLAB = path.join(__dirname, '../../../scripts/netlab');

/**
 * Bits a second of a rate in the format of tc: `1gbit`, `100mbit`.
 *
 * @throws ERR_INVALID_ARGUMENT
 */
export function bitsPerSecond(rate: string, option = 'netlab'): number {
  const bits = bitsPerSecondOf(rate);
  if (bits !== undefined) return bits;
  throw invalidArgument(`--${option} is '${rate}'; it must be ${A_RATE}.`);
}

/** @throws ERR_INVALID_ARGUMENT if this machine cannot have a lab of network namespaces, which the option needs. */
export function requireNetlab(option = '--netlab'): void {
  if (process.platform !== 'linux') throw invalidArgument(`${option} needs Linux, for its network namespaces.`);
  if (process.getuid!() !== 0) {
    throw invalidArgument(`${option} must run as root, to make network namespaces: try sudo, or leave out ${option}.`);
  }
  if (!existsSync(NETLAB)) throw invalidArgument(`${option} needs ${NETLAB}, which is not there.`);
}

/** A command to run in a lab. */
export interface NetlabRun {
  readonly ranks: number;
  readonly rate: string;
  readonly command: readonly string[];
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
}

/**
 * Runs the command once for each rank, each in its own network namespace. Resolves with the exit code when all have
 * ended. Nothing of it outlives this process.
 */
export async function runInNetlab({ ranks, rate, command, stdout, stderr }: NetlabRun): Promise<number> {
  const args = [NETLAB, 'with', String(ranks), '--rate', rate, '--no-prefix', '--', ...command];
  const child = spawnGuarded(args, { env: process.env });
  let interruptedBy: NodeJS.Signals | undefined;
  const forward = (signal: NodeJS.Signals): void => {
    interruptedBy ??= signal;
    if (child.pid !== undefined) signalProcess(child.pid, signal);
  };
  for (const signal of FORWARDED_SIGNALS) process.on(signal, forward);
  child.stdout?.pipe(stdout, { end: false });
  child.stderr?.pipe(stderr, { end: false });
  try {
    return await new Promise((resolve, reject) => {
      child.once('error', cause =>
        reject(new GradringError('ERR_RANK_FAILED', `${NETLAB} could not be started: ${cause.message}`)),
      );
      child.once('close', (exitCode, signal) =>
        resolve(interruptedBy ? signalExitCode(interruptedBy) : (exitCode ?? signalExitCode(signal!))),
      );
    });
  } finally {
    for (const signal of FORWARDED_SIGNALS) process.off(signal, forward);
  }
}
