import { GradringError } from '../errors';
import type { TfjsOptimizer } from './tfjs-optimizer';
import { type OptimizerCounters, type OptimizerState, sharesMomentum, type VariableState } from './optimizer-state';
import type { OptimizerSteps } from './optimizer-steps';

/** What a checkpoint keeps of a wrapped optimizer on this rank. u and v are views, valid until the next step. */
export async function captureState(
  steps: OptimizerSteps,
  inner: TfjsOptimizer,
  iterations: number,
): Promise<OptimizerState> {
  const { step, statistics, epoch, resize, sentFraction, links, lastRate } = steps;
  const { density } = statistics;
  const { className: optimizer, learningRate } = inner;
  const captured = steps.policy.capture();
  const counters = {
    ...{ optimizer, steps: step, density, iterations, epoch, learningRate, links, lastRate },
    ...(resize.lastWorldSize !== undefined && { worldSize: resize.lastWorldSize }),
    ...(steps.policy.changesWeights && { isLocal: true }),
    ...(captured !== undefined && { round: { steps: captured.steps, nonFinite: captured.nonFinite } }),
    ...(sentFraction?.expected !== undefined && { expectedSteps: sentFraction.expected }),
  };
  const { start = [], sums = [] } = captured ?? {};
  return { counters, variables: variableStates(steps), inner: await inner.capture(), start, sums };
}

/**
 * Takes back what {@link captureState} gave, on this or another rank, except the iterations. The arrays become the
 * optimizer's.
 */
export async function restoreState(steps: OptimizerSteps, inner: TfjsOptimizer, state: OptimizerState): Promise<void> {
  const { counters, variables } = state;
  requireSamePolicy(steps, counters);
  if (steps.outer.takenOver?.momentum) requireSharedMomenta(steps, variables);
  const { density, learningRate } = counters;
  steps.step = counters.steps;
  steps.statistics = { ...steps.statistics, density };
  steps.epoch = counters.epoch;
  steps.links = counters.links;
  steps.lastRate = counters.lastRate;
  steps.resize.lastWorldSize = counters.worldSize;
  if (steps.sentFraction !== undefined && counters.expectedSteps !== undefined) {
    steps.sentFraction.expected = counters.expectedSteps;
  }
  if (learningRate !== undefined) inner.learningRate = learningRate;
  await steps.forgetWaiting();
  steps.restored = variables;
  steps.restoreVariables();
  await inner.restore(state.inner);
  // The last one, because the tensors are the policy's then.
  if (counters.round !== undefined) steps.policy.restore({ ...counters.round, start: state.start, sums: state.sums });
}

/** u and v of every variable: views. None before the first step, unless state was restored. */
export function variableStates(steps: OptimizerSteps): VariableState[] {
  const { trained, restored, method, statistics } = steps;
  return (trained?.states() ?? restored).map(({ name, shape, momentum, residual, shared }) => {
    const isMomentumShared = sharesMomentum(method, shape, statistics.density);
    return { name, shape, momentum, residual, shared, isMomentumShared };
  });
}

/**
 * The momentum and the residuals of local steps are those of what a round changes, not of gradients. And gradients that
 * wait need a policy that lets them wait.
 */
function requireSamePolicy({ policy }: OptimizerSteps, { isLocal = false, round }: OptimizerCounters): void {
  const { changesWeights, stepsPerExchange } = policy;
  const cannotWait = round !== undefined && !changesWeights && stepsPerExchange === 1;
  if (isLocal === changesWeights && !cannotWait) return;
  const how = isLocal ? 'with local steps' : cannotWait ? 'while gradients were accumulated' : 'without local steps';
  throw new GradringError('ERR_CHECKPOINT', `The checkpoint was saved ${how}. Wrap the optimizer as before.`);
}

/** The momentum of a variable that is sent whole is that of the average, so it must be the same on all ranks. */
function requireSharedMomenta({ method }: OptimizerSteps, variables: readonly VariableState[]): void {
  const own = variables.find(({ shape, isMomentumShared }) => !isMomentumShared && sharesMomentum(method, shape, 0));
  if (own === undefined) return;
  const words = `The ranks had momenta of their own for '${own.name}' when the checkpoint was saved, and now share one. Wrap the optimizer with the same compression (momentumCorrection, denseBelow) as before.`;
  throw new GradringError('ERR_CHECKPOINT', words, { variable: own.name });
}
