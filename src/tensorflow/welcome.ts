import { bytesOf } from './bytes-of';
import { tf } from './tfjs';
import { type Communicator, Purpose } from '../communicator/communicator';
import { GradringError } from '../errors';
import type { FitPosition } from './saved-rank';
import type { OptimizerCounters, OptimizerState } from './optimizer-state';
import { describe, fromBytes, toBytes } from './replicas';
import type { Trained } from './trained';

/** All that the ranks of a training have in common, for a rank that joins. */
export interface Welcome {
  readonly header: WelcomeHeader;
  /** The variables, then the momenta, then the inner optimizer's weights and fields. */
  readonly arrays: readonly Uint8Array[];
}

interface WelcomeHeader {
  readonly position: FitPosition;
  readonly state: unknown;
  readonly counters: OptimizerCounters;
  /**
   * Whether the ranks have taken their first step since they were started, before which they compare what they train.
   */
  readonly hasBegun: boolean;
  /** As {@link describe} returns them. */
  readonly variables: readonly string[];
  /** The variables that the optimizer trains, in its order. */
  readonly trained: readonly {
    readonly name: string;
    readonly shape: readonly number[];
    readonly isMomentumShared: boolean;
  }[];
  readonly innerWeights: readonly TensorHeader[];
  readonly innerFields: readonly TensorHeader[];
  readonly byteLengths: readonly number[];
}

interface TensorHeader {
  readonly name: string;
  readonly shape: number[];
  readonly dtype: 'float32' | 'int32' | 'bool';
}

/** The welcome of this rank. The arrays are copies. */
export async function captureWelcome(
  { variables, optimizer }: Trained,
  position: FitPosition,
  state: unknown,
): Promise<Welcome> {
  const weights = await Promise.all(variables.map(async variable => bytesOf(await variable.data()).slice()));
  return optimizer.withState(async ({ counters, variables: trained, inner }) => {
    const momenta = trained.map(({ momentum, isMomentumShared }) =>
      isMomentumShared ? bytesOf(momentum).slice() : new Uint8Array(0),
    );
    const innerTensors = [...inner.weights, ...inner.fields];
    const arrays = [
      ...weights,
      ...momenta,
      ...(await Promise.all(innerTensors.map(async ({ tensor }) => bytesOf(await tensor.data()).slice()))),
    ];
    const headerOf = ({ name, tensor }: (typeof innerTensors)[number]): TensorHeader => ({
      ...{ name, shape: tensor.shape, dtype: tensor.dtype as TensorHeader['dtype'] },
    });
    const header: WelcomeHeader = {
      ...{ position, state, counters, hasBegun: optimizer.trainedNames !== undefined },
      variables: variables.map(describe),
      trained: trained.map(({ name, shape, isMomentumShared }) => ({ name, shape, isMomentumShared })),
      innerWeights: inner.weights.map(headerOf),
      innerFields: inner.fields.map(headerOf),
      byteLengths: arrays.map(({ length }) => length),
    };
    return { header, arrays };
  });
}

/** Gives the root's welcome to all ranks, by synchronous collectives of all. */
export function passWelcome(communicator: Communicator, root: number, own: Welcome | undefined): Welcome {
  const headers = communicator.allGatherSync(own === undefined ? new Uint8Array(0) : toBytes(own.header), {
    variableLength: true,
    purpose: Purpose.Join,
  });
  const header = fromBytes<WelcomeHeader>(headers[root]!);
  const arrays = header.byteLengths.map((byteLength, i) =>
    communicator.broadcastSync(own?.arrays[i] ?? new Uint8Array(byteLength), { root, purpose: Purpose.Join }),
  );
  return { header, arrays };
}

/** Takes the state from a welcome. @throws GradringError `ERR_MODEL_MISMATCH`, before any change, for another model. */
export async function takeWelcome({ header, arrays }: Welcome, { variables, optimizer }: Trained): Promise<void> {
  const own = variables.map(describe);
  const different = Math.max(own.length, header.variables.length);
  for (let i = 0; i < different; i++) {
    if (own[i] === header.variables[i]) continue;
    const words = `This rank, which was started again, trains another model than the others: variable ${i} is ${own[i] ?? 'missing'} here, and ${header.variables[i] ?? 'missing'} there.`;
    throw new GradringError('ERR_MODEL_MISMATCH', words);
  }
  const queue = [...arrays];
  for (const variable of variables) {
    const value = tensorOf(
      { name: variable.name, shape: variable.shape, dtype: variable.dtype as 'float32' },
      queue.shift()!,
    );
    variable.assign(value);
    value.dispose();
  }
  const trained = header.trained.map(({ name, shape, isMomentumShared }) => {
    const elementCount = shape.reduce((product, size) => product * size, 1);
    const bytes = queue.shift()!;
    const momentum = isMomentumShared
      ? new Float32Array(bytes.buffer, bytes.byteOffset, elementCount)
      : new Float32Array(elementCount);
    return { name, shape, momentum, residual: new Float32Array(elementCount), isMomentumShared };
  });
  const named = (tensor: TensorHeader) => ({ name: tensor.name, tensor: tensorOf(tensor, queue.shift()!) });
  const inner = { weights: header.innerWeights.map(named), fields: header.innerFields.map(named) };
  const state: OptimizerState = { counters: header.counters, variables: trained, inner };
  try {
    await optimizer.adoptState(state, header.hasBegun);
  } finally {
    tf.dispose([...inner.weights, ...inner.fields].map(({ tensor }) => tensor));
  }
}

function tensorOf({ shape, dtype }: TensorHeader, { buffer, byteOffset, byteLength }: Uint8Array): tf.Tensor {
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  if (dtype === 'bool') return tf.tensor(bytes, shape, dtype);
  const values = dtype === 'int32' ? new Int32Array(bytes.slice().buffer) : new Float32Array(bytes.slice().buffer);
  return tf.tensor(values, shape, dtype);
}
