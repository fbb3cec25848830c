import { fork } from 'node:child_process';
import path from 'node:path';
import { GradringError } from '../../errors';
import { allocatorVariables } from '../../launcher/allocator-variables';
import type { BackendName } from '../../tensorflow/backend-names';
import type { OptimizerCase, OptimizerTimes } from './optimizer-measurement';

/** What the program of a backend is to do. */
export interface OptimizerOrder extends OptimizerCase {
  readonly backend: BackendName;
  /** Also time ResNet-50's forward and backward pass. */
  readonly withResNet50Step: boolean;
}

/** What it found: that the backend is not there, and why, or the times. */
export type OptimizerAnswer = { readonly absent: string } | ({ readonly absent?: never } & OptimizerFound);

interface OptimizerFound {
  readonly times: OptimizerTimes;
  /** Of ResNet-50's forward and backward pass, if asked for. */
  readonly stepMs?: number;
  /** Why that could not be done, as where its memory does not suffice. */
  readonly stepFailure?: string;
}

const REASON_LINES = 12;

/**
 * Measures in a process of its own, for a process has one backend, with the memory settings that `gradring run` gives a
 * rank.
 *
 * @throws GradringError `ERR_BACKEND` with its last words if the process ends without an answer.
 */
export function measureInProcess(order: OptimizerOrder): Promise<OptimizerAnswer> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, ...allocatorVariables(process.env) };
    const program = path.join(__dirname, 'optimizer-program.js');
    const child = fork(program, { env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
    let stderr = '';
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.once('message', answer => resolve(answer as OptimizerAnswer));
    child.once('error', reject);
    child.once('close', (code, signal) => {
      const said = stderr.trim().split('\n').slice(-REASON_LINES).join('\n');
      const words = said || (signal === null ? `exit code ${code}` : signal);
      reject(new GradringError('ERR_BACKEND', `The measurement on ${order.backend} ended early: ${words}`));
    });
    child.send(order);
  });
}
