/** A helper of the comm thread, for one exchange: see {@link TensorThreads}. It never returns to its event loop. */
import { receiveMessageOnPort, workerData } from 'node:worker_threads';
import { blaming } from '../../collectives/blaming';
import { sumSection } from '../../collectives/sparse-all-reduce';
import { methodOf } from '../../compression/compression-method';
import type { CodedTreatment } from '../../compression/compressors/coded-treatment';
import { GradientCodec } from '../../compression/gradient-codec';
import type { TensorTreatment } from '../../compression/tensor-treatment';
import { serializeError } from '../../errors';
import { instantiateKernels } from '../../kernels/wasm-kernels';
import { largeShapes } from '../messages';
import { ofPart, treatmentsOf } from '../routes/route';
import {
  CONTROL,
  type HelperCommand,
  type HelperData,
  type HelperMessage,
  itemsOf,
  messagesFor,
  meansIn,
  noteOutcome,
  takeItems,
  takeOutcome,
} from './tensor-work';

const { plan, helper, control, outcomes, port } = workerData as HelperData;
const method = methodOf(plan.compression);
const codes = method.codes(largeShapes(plan.arenas));

let number = 0;
const arenas = plan.arenas.map(arena => {
  const { memory } = arena;
  const workspace = arena.helperWorkspaces[helper]!;
  const end = workspace + arena.helperBytes;
  const kernels = instantiateKernels(memory);
  const codec = new GradientCodec(kernels, memory, method.format, workspace);
  const tensors = arena.tensors.map(tensor => {
    const coded = codes && { codes, shape: tensor.shape, memory };
    return { ...tensor, number: number++, kernels, workspace, coded };
  });
  return { ...arena, method, kernels, codec, workspace, end, tensors };
});

function carryOut(command: HelperCommand): void {
  const { arena: index, part, step, first } = command;
  const arena = arenas[index]!;
  const tensors = ofPart(treatmentsOf(arena, step), part);
  const { count, run } = itemsFor(command, arena, tensors);
  takeItems(control, first, count, item => {
    try {
      run(item);
    } catch (error) {
      tell({ error: serializeError(error, 'ERR_COMM_THREAD') });
    }
  });
}

/** How many items a command has, and what runs one. */
function itemsFor(
  { work, onlyApplied, payloads, messages }: HelperCommand,
  arena: (typeof arenas)[number],
  tensors: readonly TensorTreatment[],
): { readonly count: number; readonly run: (item: number) => void } {
  if (work === 'writeMessages' || work === 'addMessages') {
    const { places, seeds, received } = messages!;
    const run = (item: number): void => {
      const tensor = tensors[places[item]!] as CodedTreatment;
      if (work === 'addMessages') return tensor.average(messagesFor(item, received!), blaming);
      const written = tensor.message(seeds!);
      tell({ item, written }, [written.buffer as ArrayBuffer]);
    };
    return { count: places.length, run };
  }
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
  return { count: items.length, run };
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
