import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

/** What a training of a workload returns, and what it has reported. */
interface Training {
  readonly score: number;
  readonly logLoss: number;
  readonly steps: number;
  readonly bytesSent: number;
  readonly denseBytes: number;
  readonly examples: number[];
  readonly reports: { readonly step: number; readonly loss: number; readonly error: number }[];
}

/** What a rank says. */
interface Rank {
  readonly name: string;
  readonly data: string;
  readonly trainings: Training[];
  /** The tensors that are left. */
  readonly kept: number;
}

const CLI = path.join(__dirname, '../../dist/cli.js');
const PROGRAM = path.join(__dirname, 'study-ring.js');

/** Trains a workload of the study on two ranks, in its quick form, with the seeds in turn. */
export async function trained(
  workload: string,
  { learningRate, seeds }: { learningRate: number; seeds: number[] },
): Promise<Rank[]> {
  const args = ['run', '-n', '2', '--no-prefix', PROGRAM, workload, `${learningRate}`, ...seeds.map(String)];
  const { stdout } = await promisify(execFile)(process.execPath, [CLI, ...args], { maxBuffer: 2 ** 24 });
  const lines = stdout.split('\n').filter(line => line.startsWith('{'));
  return lines.map(line => JSON.parse(line) as Rank);
}
