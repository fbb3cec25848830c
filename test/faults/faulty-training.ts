import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder } from '../launcher/support';
import { type FaultOptions, runFaulty } from './support';

/** Two ranks train with this fault; see training.js. */
export function train(fault: string, options: FaultOptions = {}): ReturnType<typeof runFaulty> {
  const disk = temporaryFolder();
  mkdirSync(path.join(disk, 'full'));
  return runFaulty(2, '', {
    script: path.join(__dirname, 'training.js'),
    ...options,
    env: { FAULT: fault, DISK: disk, FULL_DISK: path.join(disk, 'full'), ...options.env },
  });
}
