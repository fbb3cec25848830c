import { captureState, restoreState } from '../core/capture-state';
import type { OptimizerState } from './optimizer-state';
import type { OptimizerSteps } from './optimizer-steps';

/**
 * What a checkpoint keeps of a wrapped optimizer on this rank. u and v are views, valid until the next step.
 * `disposeInner` frees the tensors that are copies.
 */
export async function captureOptimizer(steps: OptimizerSteps, iterations: number): Promise<OptimizerState> {
  const captured = steps.policy.capture();
  const { start = [], sums = [] } = captured ?? {};
  const state = captureState(steps, iterations, captured);
  return { ...state, inner: await steps.inner.capture(), start, sums };
}

/**
 * Takes back what {@link captureOptimizer} gave, on this or another rank, except the iterations. The arrays become the
 * optimizer's.
 */
export async function restoreOptimizer(steps: OptimizerSteps, state: OptimizerState): Promise<void> {
  await restoreState(steps, state);
  await steps.inner.restore(state.inner);
  const { round } = state.counters;
  // The last one, because the tensors are the policy's then.
  if (round !== undefined) steps.policy.restore({ ...round, start: state.start, sums: state.sums });
}
