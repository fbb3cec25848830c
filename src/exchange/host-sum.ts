import { setImmediate } from 'node:timers/promises';
import type { CollectiveCall } from '../collectives/collective-call';
import { sumToLast } from '../collectives/sum-to-last';
import type { HostRun } from '../transport/ring-place';
import type { Arena } from './routes/route';

/** What a rank has when the ranks of its host have added their gradients. */
export interface HostSum {
  /** Whether this rank has the sum, which it compresses for all of them. The others have zeros. */
  readonly hasSum: boolean;
  /** Σ g² of the mean over these ranks. */
  readonly sumOfSquares: number;
  /** The number of a tensor whose sum is not finite. */
  readonly nonFiniteTensor: number | undefined;
}

/** Adds the gradients of the ranks of a host, in the place of the last one's. */
export async function sumOfHost(call: CollectiveCall, arenas: readonly Arena[], run: HostRun): Promise<HostSum> {
  const hasSum = call.rank === run.last;
  const ranks = run.last - run.first + 1;
  let sumOfSquares = 0;
  let nonFiniteTensor: number | undefined;
  for (const { context, gradients, tensors } of arenas) {
    await sumToLast(call.over(context), gradients, run);
    for (const { kernels, gradient, elementCount, number } of tensors) {
      await setImmediate(); // gigabytes take seconds, and the event loop must turn meanwhile
      if (!hasSum) {
        kernels.clear(gradient, elementCount);
        continue;
      }
      const ofTensor = kernels.sumOfSquares(gradient, elementCount);
      sumOfSquares += ofTensor / ranks ** 2;
      if (!Number.isFinite(ofTensor)) nonFiniteTensor ??= number;
    }
  }
  return { hasSum, sumOfSquares, nonFiniteTensor };
}
