import { basename } from 'node:path';
import { type CompressionMethod, methodOf } from '../compression/compression-method';
import type { TrainingLength } from '../compression/default-compression';
import { describeCompression } from '../compression/describe-compression';
import type { Compression } from '../compression/dgc-options';
import { GradringError } from '../errors';
import type { CompressionChoice } from './compression-choice';
import type { ExchangedTensors, TrainedTensor } from './exchanged-tensors';
import type { ExchangeSteps } from './exchange-steps';
import { type StepCounters, sharesMomentum, type StepState, type VariableState, type WaitingSteps } from './step-state';

/** The steps of any array library. */
export type Steps = ExchangeSteps<TrainedTensor, ExchangedTensors, never>;

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
export async function restoreState(steps: Steps, state: StepState): Promise<void> {
  requireFits(steps, state);
  const { counters, variables } = state;
  const { density, learningRate, expectedSteps } = counters;
  const { choice } = steps;
  if (hasBegun(counters)) choice.chooseBy(lengthIn(counters, choice));
  if (expectedSteps !== undefined) choice.expected = expectedSteps;
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

/** @throws GradringError `ERR_CHECKPOINT` if the steps cannot go on from a state: they have other options. */
export function requireFits(steps: Steps, { counters, variables }: StepState): void {
  requireSamePolicy(steps, counters);
  const compression = requireSameCompression(steps, counters);
  if (steps.outer.takenOver?.momentum) requireSharedMomenta(methodOf(compression), variables);
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

function hasBegun({ steps, compressionBy }: StepCounters): boolean {
  return steps > 0 || compressionBy !== undefined;
}

/** The length by which the compression was chosen, or would have been. */
function lengthIn({ compressionBy, expectedSteps }: StepCounters, choice: CompressionChoice): TrainingLength {
  return compressionBy ?? choice.lengthOf(expectedSteps);
}

/** Returns the compression with which the steps would go on. */
function requireSameCompression({ choice, trained }: Steps, counters: StepCounters): Compression {
  if (!hasBegun(counters)) return choice.compression;
  const compression = choice.compressionFor(lengthIn(counters, choice));
  const [saved, now] = [counters.compression, describeCompression(compression)];
  const refuse = (words: string) => {
    throw new GradringError('ERR_CHECKPOINT', `The checkpoint was saved with ${saved}, but ${words}`);
  };
  if (choice.given === undefined) {
    if (saved !== now) refuse(`${now} is the default here. Pass the same { compression } as before.`);
    const begun = describeCompression(choice.compression);
    if (trained !== undefined && begun !== now) {
      refuse(`this training has begun with ${begun}. Resume before the first step.`);
    }
  } else if (nameOf(saved) !== nameOf(now) && nameOf(saved) !== 'noCompression()') {
    // Without compression nothing was held back, which another one would have to take over.
    refuse(`this training has ${now}. Pass the same { compression } as before.`);
  }
  return compression;
}

/** The function that makes a compression, with the file of the compressor if that is the user's. */
function nameOf(description: string): string {
  const [, name, module] = /^(\w+)\((?:'([^']*)')?/.exec(description) ?? [];
  return module === undefined ? `${name}()` : `${name}('${basename(module)}')`;
}

/** The momentum of a variable that is sent whole is that of the average, so it must be the same on all ranks. */
function requireSharedMomenta(method: CompressionMethod, variables: readonly VariableState[]): void {
  const own = variables.find(({ shape, isMomentumShared }) => !isMomentumShared && sharesMomentum(method, shape, 0));
  if (own === undefined) return;
  const words = `The ranks had momenta of their own for '${own.name}' when the checkpoint was saved, and now share one. Train with the same compression (momentumCorrection, denseBelow) as before.`;
  throw new GradringError('ERR_CHECKPOINT', words, { variable: own.name });
}
