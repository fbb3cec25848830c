/** A helper of the comm thread, for one exchange: see {@link TensorThreads}. It never returns to its event loop. */
import { receiveMessageOnPort, workerData } from 'node:worker_threads';
import { sumSection } from '../../collectives/sparse-all-reduce';
import { methodOf } from '../../compression/compression-method';
import { GradientCodec } from '../../compression/gradient-codec';
import type { TensorTreatment } from '../../compression/tensor-treatment';
import { serializeError } from '../../errors';
import { instantiateKernels } from '../../kernels/wasm-kernels';
import { ofPart, treatmentsOf } from '../routes/route';
import {
  CONTROL,
  type HelperCommand,
  type HelperData,
  type HelperMessage,
  itemsOf,
  meansIn,
  noteOutcome,
  takeItems,
  takeOutcome,
} from './tensor-work';

const { plan, helper, control, outcomes, port } = workerData as HelperData;
const method = methodOf(plan.compression);

let number = 0;
const arenas = plan.arenas.map(arena => {
  const { memory } = arena;
  const workspace = arena.helperWorkspaces[helper]!;
  const end = workspace + arena.helperBytes;
  const kernels = instantiateKernels(memory);
  const codec = new GradientCodec(kernels, memory, method.format, workspace);
  const tensors = arena.tensors.map(tensor => ({ ...tensor, number: number++, kernels, workspace }));
  return { ...arena, method, kernels, codec, workspace, end, tensors };
});

function carryOut({ work, arena: index, part, step, onlyApplied, payloads, first }: HelperCommand): void {
  const arena = arenas[index]!;
  const tensors = ofPart(treatmentsOf(arena, step), part);
  const items = itemsOf(work, tensors);
  const means = work === 'average' ? meansIn(arena, tensors, payloads.length, noteOverflow) : undefined;
  const run = (item: number): void => {
    const section = items[item]!;
    const { from, until } = section;
    switch (work) {
      case 'compress':
        return noteOutcome(outcomes, tensors[from]!, tensors[from]!.compress());
      case 'settle':
        return tensors[from]!.settle(onlyApplied);
      case 'encode': {
        const own = tensors.slice(from, until);
        for (const tensor of own) takeOutcome(outcomes, tensor);
        const coded = arena.codec.encodeSection(own);
        return tell({ item, coded }, [coded.indices.buffer, coded.values.buffer]);
      }
      case 'average':
        return sumSection(means!, payloads, section);
    }
  };
  takeItems(control, first, items.length, item => {
    try {
      run(item);
    } catch (error) {
      tell({ error: serializeError(error, 'ERR_COMM_THREAD') });
    }
  });
}

function noteOverflow(tensor: TensorTreatment): void {
  noteOutcome(outcomes, tensor, false);
}

function tell(message: HelperMessage, transferred: readonly ArrayBuffer[] = []): void {
  port.postMessage(message, transferred);
}

for (;;) {
  const commands = Atomics.load(control, CONTROL.commands);
  const received = receiveMessageOnPort(port);
  if (received === undefined) Atomics.wait(control, CONTROL.commands, commands);
  else carryOut(received.message as HelperCommand);
}
