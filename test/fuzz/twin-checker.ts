import type { ValueFormat } from '../../src/compression/value-format';
import type { ExpectedTensor } from '../../src/wire/gradient-payload';
import { referenceKernels } from '../kernels/reference-kernels';
import { type Checked, PayloadChecker } from './payload-checker';
import { demand } from './refusal';

/** The twin goes bit by bit. */
const LARGEST_MESSAGE = 2048;

/**
 * A {@link PayloadChecker} that also sees to it that the plain twin of the kernels decodes and refuses the same. Slow.
 */
export class TwinChecker extends PayloadChecker {
  private readonly twin = new PayloadChecker(referenceKernels);

  override check(message: Uint8Array, format: ValueFormat, tensors: readonly ExpectedTensor[]): Checked {
    const found = super.check(message, format, tensors);
    if (message.length > LARGEST_MESSAGE) return found;
    const expected = this.twin.check(message, format, tensors);
    demand(
      found.outcome === expected.outcome && found.digest === expected.digest,
      `The kernels and their twin differ: ${found.outcome}, ${expected.outcome}.`,
    );
    return found;
  }
}
