import { existsSync, readdirSync } from 'node:fs';
import type { Communicator } from '../../src/communicator/communicator';
import { report } from './rank-report';

/** How many files this process has open; 0 where the system does not tell. */
export function openDescriptors(): number {
  return existsSync('/proc/self/fd') ? readdirSync('/proc/self/fd').length : 0;
}

/** Steps after which a ring that was formed anew has settled. */
const SETTLING_STEPS = 2;

/** Tells after each step of a ring that has settled how many files are open. */
export class DescriptorWatch {
  private steps = 0;
  private generation: number | undefined;

  look({ generation, worldSize }: Pick<Communicator, 'generation' | 'worldSize'>): void {
    this.steps = generation === this.generation ? this.steps + 1 : 1;
    this.generation = generation;
    if (this.steps > SETTLING_STEPS) report({ descriptors: openDescriptors(), generation, worldSize });
  }
}
