export class Random {
  constructor(seed: number);
  uint32(): number;
  uniform(): number;
  below(n: number): number;
  of<T>(list: readonly T[]): T;
  bytes(count: number): Uint8Array;
}
