export class KernelTrace {
  readonly features: Set<number>;
  static pairs(features: Iterable<number>): Set<string>;
}
