export interface Plan {
  readonly number: number;
}

export function planOf(seed: number, number: number, kinds?: readonly string[]): Plan;
