export interface Plan {
  readonly number: number;
  readonly transport: 'ipc' | 'tcp';
  readonly encrypted: boolean;
  readonly launcher: boolean;
  readonly leaves: readonly string[];
  readonly faults: readonly { readonly kind: string; readonly ranks: readonly number[] }[];
}

export function planOf(seed: number, number: number, kinds?: readonly string[]): Plan;
