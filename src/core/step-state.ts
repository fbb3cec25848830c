import type { TensorSource } from '../checkpoint/checkpoint-file';
import type { CompressionMethod } from '../compression/compression-method';
import { isLinkCost, type LinkCost } from '../exchange/link-cost';
import { isBoolean, isCount, isNumber, isOptional, isText, isWith } from '../shape';
import { sourceOfValues } from './saved-tensor';
import type { TrainingLength } from '../compression/default-compression';
import { type ExpectedSteps, isExpectedSteps, isTrainingLength } from './compression-choice';

/** All that the steps of a training need to continue bit for bit, but for what an optimizer keeps by itself. */
export interface StepState {
  readonly counters: StepCounters;
  /** For each variable. Empty before the first step. */
  readonly variables: readonly VariableState[];
}

/** The small part of it. */
export interface StepCounters {
  /** The class of the inner optimizer. */
  readonly optimizer: string;
  /** How many steps the training has taken, skipped ones included. */
  readonly steps: number;
  readonly iterations: number;
  /** The density of the last step. */
  readonly density: number;
  /** What its links cost. Undefined if that was not measured. */
  readonly links?: LinkCost | undefined;
  /** The learning rate of the last step. */
  readonly lastRate?: number | undefined;
  /** Undefined if not known. */
  readonly epoch?: number | undefined;
  readonly learningRate?: number | undefined;
  /** Size of the ring that took the last step, in an elastic run. */
  readonly worldSize?: number | undefined;
  /** Steps that wait for an exchange. Undefined if there are none. */
  readonly round?: WaitingSteps | undefined;
  /** Whether there are local steps. */
  readonly isLocal?: boolean | undefined;
  /** The steps of the whole training. Undefined if not known. */
  readonly expectedSteps?: ExpectedSteps | undefined;
  /** The compression, as {@link describeCompression} writes it. */
  readonly compression: string;
  /** The length by which it was chosen. Undefined if it was not chosen. */
  readonly compressionBy?: TrainingLength | undefined;
}

export const isCounters = isWith<StepCounters>({
  optimizer: isText,
  steps: isCount,
  iterations: isCount,
  density: isNumber,
  links: isOptional(isLinkCost),
  lastRate: isOptional(isNumber),
  epoch: isOptional(isNumber),
  learningRate: isOptional(isNumber),
  worldSize: isOptional(isCount),
  round: isOptional(isWith({ steps: isCount, nonFinite: isOptional(isText) })),
  isLocal: isOptional(isBoolean),
  expectedSteps: isOptional(isExpectedSteps),
  compression: isText,
  compressionBy: isOptional(isTrainingLength),
});

/** Steps that wait for an exchange. */
export interface WaitingSteps {
  readonly steps: number;
  /** A variable whose gradient was not finite on this rank, by name. */
  readonly nonFinite?: string | undefined;
}

/** The state of a variable: u and v, and what a compressor keeps. */
export interface VariableState {
  readonly name: string;
  readonly shape: readonly number[];
  readonly momentum: Float32Array;
  readonly residual: Float32Array;
  /** What a compressor keeps of it, the same on all ranks. Often empty. */
  readonly shared: Float32Array;
  /** Whether the momentum is that of the average, the same on all ranks. */
  readonly isMomentumShared: boolean;
}

/**
 * Whether a variable's momentum is that of the average: because its gradient is sent whole, and averaged first, or
 * because the compression does not correct the momentum.
 */
export function sharesMomentum(
  { correctsMomentum, sendsWhole }: CompressionMethod,
  shape: readonly number[],
  density: number,
): boolean {
  return density === 1 || !correctsMomentum || sendsWhole(shape);
}

/**
 * The state of variables as tensors of a rank's file. Their names are the kind, a slash, and the variable's name.
 */
export function sourcesOfVariables(variables: readonly VariableState[]): TensorSource[] {
  return variables.flatMap(({ name, shape, momentum, residual, shared, isMomentumShared }) => [
    sourceOfValues(`${isMomentumShared ? 'sharedMomentum' : 'momentum'}/${name}`, shape, momentum),
    sourceOfValues(`residual/${name}`, shape, residual),
    ...(shared.length > 0 ? [sourceOfValues(`shared/${name}`, [shared.length], shared)] : []),
  ]);
}
