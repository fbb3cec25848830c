import { basename } from 'node:path';
import { describeCompression } from '../compression/describe-compression';
import { GradringError } from '../errors';
import type { ExchangedTensors, TrainedTensor } from './exchanged-tensors';
import type { ExchangeSteps } from './exchange-steps';
import { type StepCounters, sharesMomentum, type StepState, type VariableState, type WaitingSteps } from './step-state';

/** The steps of any array library. */
type Steps = ExchangeSteps<TrainedTensor, ExchangedTensors, never>;

/**
 * What a checkpoint keeps of the steps on this rank. u and v are views, valid until the next step.
 *
 * @param captured What the policy keeps of steps that wait for an exchange.
 */
export function captureState(steps: Steps, captured: WaitingSteps | undefined): StepState {
  const { step, iterations, statistics, epoch, resize, choice, links, lastRate } = steps;
  const { density } = statistics;
  const { className: optimizer, learningRate } = steps.inner;
  const counters = {
    ...{ optimizer, steps: step, density, iterations, epoch, learningRate, links, lastRate },
    compression: describeCompression(choice.compression),
    ...(resize.lastWorldSize !== undefined && { worldSize: resize.lastWorldSize }),
    ...(steps.policy.changesWeights && { isLocal: true }),
    ...(captured !== undefined && { round: { steps: captured.steps, nonFinite: captured.nonFinite } }),
    ...(choice.expected !== undefined && { expectedSteps: choice.expected }),
    ...(choice.chosenBy !== undefined && { compressionBy: choice.chosenBy }),
  };
  return { counters, variables: variableStates(steps) };
}

/**
 * Takes back what {@link captureState} gave, on this or another rank, except what waits for an exchange. The arrays
 * become those of the steps.
 */
export async function restoreState(steps: Steps, { counters, variables }: StepState): Promise<void> {
  requireSamePolicy(steps, counters);
  takeChoice(steps, counters);
  if (steps.outer.takenOver?.momentum) requireSharedMomenta(steps, variables);
  const { density, learningRate } = counters;
  steps.step = counters.steps;
  steps.iterations = counters.iterations;
  steps.statistics = { ...steps.statistics, density };
  steps.epoch = counters.epoch;
  steps.links = counters.links;
  steps.lastRate = counters.lastRate;
  steps.resumedSteps = counters.round?.steps ?? 0;
  steps.resize.lastWorldSize = counters.worldSize;
  if (learningRate !== undefined) steps.inner.learningRate = learningRate;
  await steps.forgetWaiting();
  steps.restored = variables;
  steps.restoreVariables();
  steps.notices.take();
}

/** u and v of every variable: views. None before the first step, unless state was restored. */
export function variableStates(steps: Steps): VariableState[] {
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
function requireSamePolicy({ policy }: Steps, { isLocal = false, round }: StepCounters): void {
  const { changesWeights, stepsPerExchange } = policy;
  const cannotWait = round !== undefined && !changesWeights && stepsPerExchange === 1;
  if (isLocal === changesWeights && !cannotWait) return;
  const how = isLocal ? 'with local steps' : cannotWait ? 'while gradients were accumulated' : 'without local steps';
  throw new GradringError('ERR_CHECKPOINT', `The checkpoint was saved ${how}. Train with the same options as before.`);
}

/**
 * Takes the expected steps, and the compression that was chosen by them if this training has none of its own.
 *
 * @throws GradringError `ERR_CHECKPOINT` if its state fits another compression.
 */
function takeChoice(
  { choice, trained }: Steps,
  { steps, compression, expectedSteps, compressionBy }: StepCounters,
): void {
  const wasBegun = steps > 0 || compressionBy !== undefined;
  const refuse = (words: string) => {
    throw new GradringError('ERR_CHECKPOINT', `The checkpoint was saved with ${compression}, but ${words}`);
  };
  if (choice.given !== undefined) {
    const given = describeCompression(choice.given);
    const [was, is] = [compression, given].map(nameOf);
    // Without compression nothing is held back that another one would have to take over.
    if (wasBegun && was !== is && was !== 'noCompression()')
      refuse(`this training has ${given}. Pass the same { compression } as before.`);
  } else if (wasBegun) {
    const length = compressionBy ?? choice.lengthOf(expectedSteps);
    const chosen = describeCompression(choice.compressionFor(length));
    if (compression !== chosen) {
      refuse(`${chosen} is the default here. Pass the same { compression } as before.`);
    }
    const begun = describeCompression(choice.compression);
    if (trained !== undefined && begun !== chosen) {
      refuse(`this training has begun with ${begun}. Resume before the first step.`);
    }
    choice.chooseBy(length);
  }
  if (expectedSteps !== undefined) choice.expected = expectedSteps;
}

/** The function that makes a compression, with the file of the compressor if that is the user's. */
function nameOf(description: string): string {
  const [, name, module] = /^(\w+)\((?:'([^']*)')?/.exec(description) ?? [];
  return module === undefined ? `${name}()` : `${name}('${basename(module)}')`;
}

/** The momentum of a variable that is sent whole is that of the average, so it must be the same on all ranks. */
function requireSharedMomenta({ method }: Steps, variables: readonly VariableState[]): void {
  const own = variables.find(({ shape, isMomentumShared }) => !isMomentumShared && sharesMomentum(method, shape, 0));
  if (own === undefined) return;
  const words = `The ranks had momenta of their own for '${own.name}' when the checkpoint was saved, and now share one. Train with the same compression (momentumCorrection, denseBelow) as before.`;
  throw new GradringError('ERR_CHECKPOINT', words, { variable: own.name });
}
