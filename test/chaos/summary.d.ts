import type { Plan } from './plan';

export class Summary {
  constructor(seed: number);
  add(plan: Plan, observed: object, broken: string[]): void;
  readonly result: { runs: number; failures: object[]; kinds: object[]; neverStruck: Record<string, number> };
  readonly words: string;
}
