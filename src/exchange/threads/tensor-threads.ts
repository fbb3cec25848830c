import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { requireRoomForThread } from '../../address-space';
import type { CodedPart } from '../../compression/gradient-codec';
import type { GradientStreams } from '../../compression/gradient-streams';
import type { TensorTreatment } from '../../compression/tensor-treatment';
import { deserializeError } from '../../errors';
import { ownFile } from '../../own-file';
import type { ExchangePlan } from '../messages';
import { type StepArena, sumOf } from '../routes/route';
import {
  CONTROL,
  type HelperCommand,
  type HelperData,
  type HelperMessage,
  type Item,
  itemsOf,
  noteOutcome,
  takeItems,
  takeOutcome,
  type TensorWork,
} from './tensor-work';

/** From how many elements, or entries, on helpers are woken. Fewer are done before they are awake. */
const WORTH_ELEMENTS = 2 ** 20;
const WORTH_ENTRIES = 2 ** 16;

interface Helper {
  readonly worker: Worker;
  readonly port: MessagePort;
}

/**
 * Compresses, encodes and settles the tensors of a step on several threads: the comm thread, and helpers that sleep
 * between steps. A tensor is compressed by one thread, as it would be without helpers. So the number of threads changes
 * no bit. All threads work in the memory of the arenas, where each has a workspace of its own.
 *
 * What is too small to be worth a helper, this thread does by itself.
 */
export class TensorThreads {
  private helpers: readonly Helper[];
  private readonly control = new Int32Array(new SharedArrayBuffer(4 * CONTROL.words));
  private readonly outcomes: Float64Array;

  /** Starts as many helpers as all arenas have workspaces for, if one of them is large enough. */
  constructor(plan: ExchangePlan) {
    const { arenas } = plan;
    this.outcomes = new Float64Array(new SharedArrayBuffer(8 * sumOf(arenas, ({ tensors }) => tensors.length)));
    const isLarge = arenas.some(({ tensors }) => elementsOf(tensors) >= WORTH_ELEMENTS);
    const count = isLarge ? Math.min(...arenas.map(({ helperWorkspaces }) => helperWorkspaces.length)) : 0;
    this.helpers = Array.from({ length: count }).flatMap((_, helper) => this.start(plan, helper) ?? []);
  }

  /** Undefined if the system has no thread for it. Then the others do its work. */
  private start(plan: ExchangePlan, helper: number): Helper | undefined {
    const { port1, port2 } = new MessageChannel();
    const workerData: HelperData = { plan, helper, control: this.control, outcomes: this.outcomes, port: port2 };
    const file = ownFile('exchange/threads/helper-thread.js');
    try {
      requireRoomForThread();
      const worker = new Worker(file, { workerData, transferList: [port2], execArgv: [], env: {} });
      worker.unref();
      port1.unref();
      // The system may also refuse the thread later, and says so by this event.
      worker.once('error', () => (this.helpers = this.helpers.filter(each => each.worker !== worker)));
      return { worker, port: port1 };
    } catch {
      port1.close();
      return undefined;
    }
  }

  /**
   * Compresses the tensors of an arena.
   *
   * @returns the number of a tensor whose entries are not finite, if there is one.
   */
  compress(arena: StepArena): number | undefined {
    const { tensors } = arena;
    const { outcomes } = this;
    const compress = (tensor: TensorTreatment) => noteOutcome(outcomes, tensor, tensor.compress());
    if (this.helpers.length > 0 && elementsOf(tensors) >= WORTH_ELEMENTS)
      this.run('compress', arena, ({ from }) => compress(tensors[from]!));
    else tensors.forEach(compress);
    return tensors.filter(tensor => !takeOutcome(outcomes, tensor)).at(-1)?.number;
  }

  /** Encodes the entries of an arena. The streams are valid until the next call. */
  encode(arena: StepArena): GradientStreams {
    const { tensors, codec } = arena;
    if (!this.isWorthHelp(arena)) return codec.encode(tensors);
    for (const tensor of tensors) noteOutcome(this.outcomes, tensor, true);
    const parts: CodedPart[] = [];
    const encode = ({ from, until }: Item, i: number) => (parts[i] = codec.encodePart(tensors.slice(from, until)));
    this.run('encode', arena, encode, (i, coded) => (parts[i] = coded));
    return codec.join(parts);
  }

  /** Takes what the receivers of the entries got out of the state. */
  settle(arena: StepArena): void {
    const { tensors, kept } = arena;
    const settle = (tensor: TensorTreatment) => tensor.settle(kept.length > 0);
    if (this.isWorthHelp(arena)) this.run('settle', arena, ({ from }) => settle(tensors[from]!));
    else tensors.forEach(settle);
  }

  /** Ends the helpers. */
  close(): void {
    for (const { worker, port } of this.helpers) {
      port.close();
      void worker.terminate();
    }
    this.helpers = [];
  }

  private isWorthHelp({ tensors }: StepArena): boolean {
    return this.helpers.length > 0 && sumOf(tensors, ({ count }) => count) >= WORTH_ENTRIES;
  }

  /** Runs a work on all threads. Returns when all items are done. */
  private run(
    work: TensorWork,
    { index, part, tensors, step, kept }: StepArena,
    run: (item: Item, number: number) => void,
    onCoded?: (item: number, coded: CodedPart) => void,
  ): void {
    const { control, helpers } = this;
    const threads = helpers.length + 1;
    const items = itemsOf(work, tensors, threads);
    const first = Atomics.load(control, CONTROL.next);
    Atomics.store(control, CONTROL.done, 0);
    const onlyApplied = kept.length > 0;
    const command: HelperCommand = { work, arena: index, part, step, onlyApplied, first, threads };
    for (const { port } of helpers) port.postMessage(command);
    Atomics.add(control, CONTROL.commands, 1);
    Atomics.notify(control, CONTROL.commands);
    let failure = takeItems(control, first, items.length, number => run(items[number]!, number));
    for (let done; (done = Atomics.load(control, CONTROL.done)) < items.length;) {
      Atomics.wait(control, CONTROL.done, done);
    }
    for (const { port } of helpers) {
      for (let received; (received = receiveMessageOnPort(port)) !== undefined;) {
        const message = received.message as HelperMessage;
        if ('error' in message) failure ??= { error: deserializeError(message.error) };
        else onCoded?.(message.item, message.coded);
      }
    }
    if (failure !== undefined) throw failure.error;
  }
}

function elementsOf(tensors: readonly { readonly elementCount: number }[]): number {
  return sumOf(tensors, ({ elementCount }) => elementCount);
}
