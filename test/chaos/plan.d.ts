export interface Plan {
  readonly number: number;
  readonly steps: number;
  readonly transport: 'ipc' | 'tcp';
  readonly encrypted: boolean;
  readonly launcher: boolean;
  readonly paceMs: number;
  readonly leaves: readonly string[];
  readonly faults: readonly Fault[];
}

interface Fault {
  readonly kind: string;
  readonly ranks: readonly number[];
  readonly at: { readonly step?: number };
}

export function planOf(seed: number, number: number, kinds?: readonly string[]): Plan;
