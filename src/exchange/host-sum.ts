import { setImmediate } from 'node:timers/promises';
import { checkLength, type CollectiveCall } from '../collectives/collective-call';
import { sumToLast } from '../collectives/dense-ring';
import type { HostRun } from '../transport/ring-place';
import type { Arena, StepArena } from './routes/route';

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

/**
 * Gives the last rank of a host the own state of the others, which is zero afterwards. They have some after steps that
 * they did each by itself: a dense warm-up, or steps of a checkpoint from ranks in other places. The state is linear in
 * the gradients, so the sum is that of the host.
 */
export async function handOverState(call: CollectiveCall, arenas: readonly StepArena[], run: HostRun): Promise<void> {
  const { rank } = call;
  const leftGives = rank > run.first && (await hearWhetherStateComes(call));
  const gives = rank < run.last && (leftGives || holdsState(arenas));
  if (rank < run.last) await call.send(0, Uint8Array.of(Number(gives)));
  if (!leftGives && !gives) return;
  const own = { first: leftGives ? rank - 1 : rank, last: gives ? rank + 1 : rank };
  for (const { context, tensors } of arenas) {
    for (const { ownState, elementCount } of tensors) {
      for (const data of ownState) {
        await sumToLast(call.over(context), { type: 'float32', data, elementCount }, own);
        if (gives) context.kernels.clear(data, elementCount);
      }
    }
  }
}

async function hearWhetherStateComes(call: CollectiveCall): Promise<boolean> {
  const origin = call.rank - 1;
  const { body } = await call.receive(origin, 0);
  checkLength(origin, body.length, 1);
  return body[0] === 1;
}

function holdsState(arenas: readonly StepArena[]): boolean {
  return arenas.some(({ context, tensors }) =>
    tensors.some(({ ownState, elementCount }) =>
      ownState.some(data => context.kernels.sumOfSquares(data, elementCount) !== 0),
    ),
  );
}
