import type { ValueFormat } from '../../src/compression/value-format';
import type { Kernels } from '../../src/kernels/kernels';
import type { ExpectedTensor } from '../../src/wire/gradient-payload';
import type { KernelTrace } from './traced-kernels';

export class PayloadChecker {
  readonly trace: KernelTrace;
  constructor(makeKernels?: (memory: WebAssembly.Memory) => Kernels);
  check(
    message: Uint8Array,
    format: ValueFormat,
    tensors: readonly ExpectedTensor[],
  ): { outcome: string; digest: number };
}
