import { checkOptions } from '../check-options';
import type { TensorSource } from '../checkpoint/checkpoint-file';
import { type Communicator, Purpose } from '../communicator/communicator';
import { invalidArgument } from '../errors';
import { bytesOf } from './bytes-of';
import {
  checkCoreCheckpointOptions,
  CORE_CHECKPOINT_NAMES,
  type CoreCheckpointOptions,
  type ResumedPosition,
} from './core-checkpoint-options';
import { broadcastArrays, namedArraysOf } from './named-arrays';
import { sourcesOfVariables, type StepState } from './step-state';
import { hashOf } from './replicas';
import { type ArraySteps, RingGradients } from './ring-gradients';
import { isPosition, type Position } from './saved-rank';
import { typeOf } from './saved-tensor';
import { inBrackets, sizeOf } from './shapes';
import {
  type CheckpointedVariable,
  type CheckpointSource,
  TrainingCheckpoint,
  type TrainingFit,
} from './training-checkpoint';

/** What a program trains. */
export interface TrainedArrays {
  /**
   * All arrays of the training, by name, each a Float32Array or an Int32Array: what is trained, under the names of its
   * gradients, and what else the program wants back, such as the state of its own optimizer. A save reads them, and a
   * resume writes to them in place. The object that you pass is read at each save: change its arrays, or put new ones
   * into it. A new object is not seen.
   */
  readonly arrays: { readonly [name: string]: Float32Array | Int32Array };
  /** What takes the steps. */
  readonly gradients: RingGradients<string, null> | RingGradients;
}

const CALL = 'ring.checkpoint({ arrays, gradients }, { dir })';

/**
 * Saves a training and resumes it bit for bit: its arrays, the momenta and residuals of each rank, counters, and what
 * the program adds. Made by {@link CoreRing.checkpoint}. All ranks must save together, and resume together. The files
 * are those of `gradring`.
 *
 * ```ts
 * const arrays = { bias: new Float32Array(4) };
 * const gradients = core.gradients({ bias: [4] }, { compression: noCompression() });
 * const checkpoint = core.checkpoint({ arrays, gradients }, { dir: 'core', every: 100 });
 * const { step } = await checkpoint.resume();
 * for (let done = step; done < 4; done++) {
 *   const { bias } = await gradients.step({ bias: arrays.bias.map(value => value - 1) });
 *   bias.forEach((update, i) => (arrays.bias[i]! -= 0.5 * update));
 *   await checkpoint.afterStep();
 * }
 * console.log(arrays.bias); // Float32Array(4) [ 0.9375, 0.9375, 0.9375, 0.9375 ]
 * gradients.dispose();
 * ```
 */
export class CoreCheckpoint {
  private readonly training: TrainingCheckpoint<StepState, Position>;

  constructor(
    private readonly communicator: Communicator,
    source: TrainedArrays,
    options: CoreCheckpointOptions,
  ) {
    if (!(source?.gradients instanceof RingGradients)) {
      throw invalidArgument(`${CALL} takes what ring.gradients(…) returned.`);
    }
    if (options === undefined) throw invalidArgument(`${CALL} needs dir, the path of a folder.`);
    checkOptions('ring.checkpoint', options, CORE_CHECKPOINT_NAMES);
    checkCoreCheckpointOptions(CALL, options);
    const arrays = new CheckpointedArrays(communicator, source);
    arrays.variables(); // throws here if one is missing
    this.training = new TrainingCheckpoint(communicator, arrays, options);
  }

  /**
   * Saves now, and returns the folder of the new checkpoint. Await it before the next step. It returns when the
   * checkpoint is complete on all ranks; a crash at any instant before that leaves the checkpoint before.
   *
   * @throws GradringError `ERR_CHECKPOINT` on every rank if one rank cannot write, with that rank and the path. The
   *   training may continue. `ERR_CHECKPOINT_IN_USE` if another run, or another checkpoint of this program, uses the
   *   folder. `ERR_INVALID_ARGUMENT` for a `state` that JSON would change, with the place in it. And what every
   *   collective may throw (see {@link Communicator}).
   */
  async save(): Promise<string> {
    return this.training.save();
  }

  /**
   * Does what is due after a step. All ranks await it after each step, and before the next. It saves if the option
   * `every` says so. If a rank was told to stop meanwhile, by SIGTERM or SIGUSR1, or because its time is over
   * (`stopAfter` of `connect`), all ranks save after the same step, and end with exit code 75. Use one checkpoint for
   * all that the program trains.
   *
   * From the first call until `ring.close()`, these signals do not end the process at once.
   *
   * @throws what {@link save} throws.
   */
  async afterStep(): Promise<void> {
    await this.training.afterStep();
  }

  /**
   * Completes the checkpoints that the option `background` still writes. All ranks call it after the last step.
   *
   * @returns Their folders. None if there was nothing to complete, or if a rank was lost before that.
   * @throws what {@link save} throws.
   */
  async finish(): Promise<string[]> {
    return this.training.finish();
  }

  /**
   * Goes back to the newest checkpoint that is complete on all ranks: writes to the arrays, and restores the state of
   * the steps. Changes nothing if there is none. Call it before the first step. Until `ring.close()`, no other run may
   * use the folder.
   *
   * @throws GradringError `ERR_CHECKPOINT_DAMAGED` on every rank, with the path and the reason, unless `onDamage:
   *   'previous'` finds another checkpoint; `ERR_CHECKPOINT` if a file cannot be read, or if the ring has another size
   *   and the option `residuals` is not given; `ERR_CHECKPOINT_IN_USE` if another run uses the folder;
   *   `ERR_MODEL_MISMATCH` if it has other arrays. And what every collective may throw.
   */
  async resume(): Promise<ResumedPosition> {
    const { resumed } = await this.training.resumeFrom(this.training.folder.dir);
    return resumed;
  }
}

/** Typed arrays, as a checkpoint uses them. */
class CheckpointedArrays implements CheckpointSource<StepState, Position> {
  constructor(
    private readonly communicator: Communicator,
    private readonly source: TrainedArrays,
  ) {}

  get steps(): ArraySteps {
    return this.source.gradients.steps;
  }

  variables(): CheckpointedVariable[] {
    const shapes = new Map(this.source.gradients.steps.tensors.map(({ name, shape }) => [name, shape]));
    const arrays = namedArraysOf(this.source.arrays, 'ring.checkpoint');
    const missing = [...shapes.keys()].find(name => !arrays.some(array => array.name === name));
    if (missing !== undefined) {
      throw invalidArgument(`ring.checkpoint: '${missing}' is trained, but it is not among the arrays.`);
    }
    return arrays.map(array => {
      const { name, dtype, values } = array;
      const type = typeOf(array);
      const shape = shapes.get(name) ?? array.shape;
      if (shapes.has(name) && (dtype !== 'float32' || sizeOf(shape) !== values.length)) {
        const words = `'${name}' is ${dtype}[${values.length}], but its gradients have the shape ${inBrackets(shape)}`;
        throw invalidArgument(`ring.checkpoint: ${words}.`);
      }
      return {
        ...{ name, given: name, dtype, shape },
        source: sourceName => ({ name: sourceName, type, shape, bytes: () => bytesOf(values) }),
        hash: () => hashOf({ name, dtype, shape }, values),
        assign: ({ bytes }) => bytesOf(values).set(bytes),
      };
    });
  }

  fit(): TrainingFit<Position> {
    const advice = 'Arrays are matched by name.';
    return { optimizer: this.steps.inner.className, isPosition, advice };
  }

  sourcesOf({ variables }: StepState): TensorSource[] {
    return sourcesOfVariables(variables);
  }

  stateOf(state: StepState): StepState {
    return state;
  }

  async broadcastVariables(): Promise<void> {
    const arrays = namedArraysOf(this.source.arrays, 'ring.checkpoint');
    await broadcastArrays(this.communicator, arrays, { root: 0, purpose: Purpose.ResumeCheckpoint });
  }
}
