import { fork } from 'node:child_process';
import { GradringError } from '../../errors';
import { allocatorVariables } from '../../launcher/host-resources';
import { ownFile } from '../../own-file';
import type { BackendName } from '../../tensorflow/backend-names';
import type { OptimizerCase, OptimizerTimes } from './optimizer-measurement';

/** What the program of a backend must do. */
export interface OptimizerOrder extends OptimizerCase {
  readonly backend: BackendName;
  /** Whether to time the forward and backward pass of ResNet-50, too. */
  readonly withResNet50Step: boolean;
}

/** The answer of the program: why the backend is not there, or the times. */
export type OptimizerAnswer = { readonly absent: string } | ({ readonly absent?: never } & OptimizerFound);

interface OptimizerFound {
  readonly times: OptimizerTimes;
  /** The time of ResNet-50's forward and backward pass, if it was asked for. */
  readonly stepMs?: number;
  /** Why that could not be timed: for example, too little memory. */
  readonly stepFailure?: string;
}

const REASON_LINES = 12;

/**
 * Measures in a process of its own, because a process has only one backend. The process has the memory settings that
 * `gradring run` gives a rank.
 *
 * @throws GradringError `ERR_BACKEND` with the last lines of its error output, if the process ends without an answer.
 */
export function measureInProcess(order: OptimizerOrder): Promise<OptimizerAnswer> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, ...allocatorVariables(process.env) };
    const program = ownFile('bench/optimizer/optimizer-program.js');
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
