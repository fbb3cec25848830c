import { byteLengthOf, ELEMENT_TYPES, type TensorShape } from '../checkpoint/safetensors';
import { type Communicator, Purpose } from '../communicator/communicator';
import { GradringError } from '../errors';
import { shownName } from '../printable';
import { brokenValue, decodeValue, encodeValue } from '../rank-values';
import { isAnything, isBoolean, isCount, isListOf, isOneOf, isText, isWith } from '../shape';
import { isCounters, type StepCounters } from '../core/step-state';
import { sourcesOf, tensorStatesOf } from './optimizer-state';
import { areTexts, describe } from '../core/replicas';
import { type FitPosition, isFitPosition } from './fit-position';
import { restoreVariable, sourceOf } from './tensor-source';
import { stateOf } from '../core/resized-state';
import { tensorsUnder, typeOf } from '../core/saved-tensor';
import { sizeOf } from '../core/shapes';
import type { Training } from './trained';

/** All that the ranks of a training have in common, for a rank that joins. */
export interface Welcome {
  readonly header: WelcomeHeader;
  /** The values of the header's tensors. */
  readonly arrays: readonly Uint8Array[];
}

interface WelcomeHeader {
  readonly position: FitPosition;
  readonly state: unknown;
  readonly counters: StepCounters;
  /** Whether the ranks have taken a step since they were started. Before the first they compare what they train. */
  readonly hasBegun: boolean;
  /** As {@link describe} returns them. */
  readonly variables: readonly string[];
  /** The variables that the optimizer trains, in its order. */
  readonly trained: readonly { readonly name: string; readonly shape: readonly number[] }[];
  /** Named as in the files of a checkpoint; see {@link sourcesOf}. */
  readonly tensors: readonly (TensorShape & { readonly byteLength: number })[];
}

/** All state has at most this many times the bytes of the weights, and a little more. Adam's has three times. */
const MOST_STATE = 16;
const LEAST_STATE = 2 ** 20;

/** The welcome of this rank. The arrays are copies. */
export async function captureWelcome(
  { variables, steps }: Training,
  position: FitPosition,
  state: unknown,
): Promise<Welcome> {
  return steps.withState(async captured => {
    const common = sourcesOf(captured).filter(({ name }) => !/^(momentum|residual|sum)\//.test(name));
    const sources = [...variables.map(variable => sourceOf(`weight/${variable.name}`, variable)), ...common];
    const arrays = await Promise.all(sources.map(async source => (await source.bytes()).slice()));
    const tensors = sources.map(({ name, type, shape }, i) => ({ name, type, shape, byteLength: arrays[i]!.length }));
    const header: WelcomeHeader = {
      ...{ position, state, counters: captured.counters, hasBegun: steps.trainedNames !== undefined },
      variables: variables.map(describe),
      trained: captured.variables.map(({ name, shape }) => ({ name, shape })),
      tensors,
    };
    return { header, arrays };
  });
}

const isShape = isListOf(isCount);

const isHeader = isWith<WelcomeHeader>({
  position: isFitPosition,
  state: isAnything,
  counters: isCounters,
  hasBegun: isBoolean,
  variables: areTexts,
  trained: isListOf(isWith({ name: isText, shape: isShape })),
  tensors: isListOf(isWith({ name: isText, type: isOneOf(ELEMENT_TYPES), shape: isShape, byteLength: isCount })),
});

/**
 * Gives the root's welcome to all ranks, by synchronous collectives of all.
 *
 * @param trained What this rank trains.
 * @throws GradringError `ERR_MODEL_MISMATCH` if the root has another model, and `ERR_PROTOCOL` if that cannot be its
 *   state: both before anything of it is received.
 */
export function passWelcome(
  communicator: Communicator,
  root: number,
  own: Welcome | undefined,
  trained: Training,
): Welcome {
  const headers = communicator.allGatherSync(own === undefined ? new Uint8Array(0) : encodeValue(own.header), {
    variableLength: true,
    purpose: Purpose.Join,
  });
  const header = decodeValue(headers[root]!, root, isHeader);
  checkModel(header, trained);
  if (!fits(header, trained)) throw brokenValue(root);
  const arrays = header.tensors.map(({ byteLength }, i) =>
    communicator.broadcastSync(own?.arrays[i] ?? new Uint8Array(byteLength), { root, purpose: Purpose.Join }),
  );
  return { header, arrays };
}

function checkModel(header: WelcomeHeader, { variables }: Training): void {
  const own = variables.map(describe);
  const different = Math.max(own.length, header.variables.length);
  for (let i = 0; i < different; i++) {
    if (own[i] === header.variables[i]) continue;
    const words = `This rank, which was started again, trains another model than the others: variable ${i} is ${own[i] ?? 'missing'} here, and ${shownName(header.variables[i] ?? 'missing')} there.`;
    throw new GradringError('ERR_MODEL_MISMATCH', words);
  }
}

/** Whether that can be the state of a training of this model: all weights, and not much more than optimizers keep. */
function fits({ trained, tensors }: WelcomeHeader, { variables }: Training): boolean {
  const sizes = new Map(tensors.map(({ name, byteLength }) => [name, byteLength]));
  const weights = new Map(variables.map(variable => [variable.name, byteLengthOf(typeOf(variable), variable.shape)]));
  const most = MOST_STATE * [...weights.values()].reduce((sum, bytes) => sum + bytes, 0) + LEAST_STATE;
  return (
    sizes.size === tensors.length &&
    tensors.every(({ type, shape, byteLength }) => byteLength === byteLengthOf(type, shape)) &&
    tensors.reduce((sum, { byteLength }) => sum + byteLength, 0) <= most &&
    [...weights].every(([name, bytes]) => sizes.get(`weight/${name}`) === bytes) &&
    trained.every(({ name, shape }) => {
      const bytes = byteLengthOf('F32', shape);
      const isAbsentOrWhole = (kind: string) => [undefined, bytes].includes(sizes.get(`${kind}/${name}`));
      return weights.get(name) === bytes && isAbsentOrWhole('sharedMomentum') && isAbsentOrWhole('start');
    })
  );
}

/** Takes the state from a welcome. */
export async function takeWelcome({ header, arrays }: Welcome, { variables, steps }: Training): Promise<void> {
  const tensors = new Map(header.tensors.map((tensor, i) => [tensor.name, { ...tensor, bytes: arrays[i]! }]));
  const weights = tensorsUnder(tensors, 'weight');
  for (const variable of variables) restoreVariable(variable, weights.get(variable.name)!);
  const trained = header.trained.map(({ name, shape }) => {
    return stateOf({ name, shape }, tensors, () => new Float32Array(sizeOf(shape)));
  });
  const { round, ...others } = header.counters;
  const counters = round === undefined ? others : { ...others, round: { steps: round.steps } }; // others tell the rest
  const state = { counters, variables: trained, sums: [], ...tensorStatesOf(tensors) };
  await steps.adoptState(state, header.hasBegun);
}
