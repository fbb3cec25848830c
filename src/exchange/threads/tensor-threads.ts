import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { requireRoomForThread } from '../../address-space';
import { sumSection } from '../../collectives/sparse-all-reduce';
import {
  type GradientStreams,
  joinSections,
  type Section,
  type SectionStreams,
  sectionsOf,
} from '../../compression/gradient-streams';
import type { TensorTreatment } from '../../compression/tensor-treatment';
import { deserializeError } from '../../errors';
import { ownFile } from '../../own-file';
import type { ReceivedPayload } from '../../wire/gradient-payload';
import type { ExchangePlan } from '../messages';
import { type StepArena, sumOf } from '../routes/route';
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
  type TensorWork,
} from './tensor-work';

/** From how many elements, or entries, on helpers are woken. Fewer are done before they are awake. */
const WORTH_ELEMENTS = 2 ** 20;
const WORTH_ENTRIES = 2 ** 16;

/** The memory for payloads is freed if it is this many times as large as those of a step. */
const MOST_UNUSED = 4;

interface Helper {
  readonly worker: Worker;
  readonly port: MessagePort;
}

/**
 * Compresses, encodes, averages and settles the tensors of a step on several threads: the comm thread, and helpers that
 * sleep between steps. One thread does a tensor, as it would be done without helpers. So the number of threads changes
 * no bit. All threads work in the memory of the arenas, where each has a workspace of its own.
 *
 * What is too small to be worth a helper, this thread does by itself.
 */
export class TensorThreads {
  private helpers: readonly Helper[];
  private readonly control = new Int32Array(new SharedArrayBuffer(4 * CONTROL.words));
  private readonly outcomes: Float64Array;
  /** For what the helpers read of payloads. */
  private memory = new SharedArrayBuffer(0);

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
    if (this.helpers.length === 0 || elementsOf(tensors) < WORTH_ELEMENTS) {
      const areFinite = tensors.map(tensor => tensor.compress());
      return tensors[areFinite.lastIndexOf(false)]?.number;
    }
    this.run('compress', arena, ({ from }) => noteOutcome(outcomes, tensors[from]!, tensors[from]!.compress()));
    return tensors.filter(tensor => !takeOutcome(outcomes, tensor)).at(-1)?.number;
  }

  /** Encodes the entries of an arena. The streams are valid until the next call. */
  encode(arena: StepArena): GradientStreams {
    const { tensors, codec } = arena;
    if (!this.isWorthHelp(arena)) return codec.encode(tensors);
    for (const tensor of tensors) noteOutcome(this.outcomes, tensor, true);
    const coded: SectionStreams[] = [];
    const encode = ({ number, from, until }: Section) =>
      (coded[number] = codec.encodeSection(tensors.slice(from, until)));
    this.run('encode', arena, encode, { onCoded: (item, streams) => (coded[item] = streams) });
    return joinSections(coded);
  }

  /**
   * Decodes the payloads of all ranks. Their mean takes the place of the gradients.
   *
   * @returns the tensors whose sum has overflowed.
   * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors.
   */
  average(arena: StepArena, payloads: readonly ReceivedPayload[]): Set<TensorTreatment> {
    const { tensors, codec, workspace, bytes } = arena;
    const { outcomes } = this;
    const place = { kernels: arena.context.kernels, codec, workspace, end: bytes };
    const overflowed = new Set<TensorTreatment>();
    const means = meansIn(place, tensors, payloads.length, tensor => overflowed.add(tensor));
    const average = (section: Section) => sumSection(means, payloads, section);
    const sections = sectionsOf(tensors);
    if (this.helpers.length === 0 || sections.length === 1) sections.forEach(average);
    else {
      for (const tensor of tensors) noteOutcome(outcomes, tensor, true);
      this.run('average', arena, average, { payloads: this.shared(payloads) });
      for (const tensor of tensors) if (!takeOutcome(outcomes, tensor)) overflowed.add(tensor);
    }
    return overflowed;
  }

  /** The payloads, with their streams in memory that all threads share. It is valid until the next call. */
  private shared(payloads: readonly ReceivedPayload[]): ReceivedPayload[] {
    const bytes = sumOf(payloads, ({ streams }) => streams.indices.length + streams.values.length);
    if (this.memory.byteLength < bytes || this.memory.byteLength > MOST_UNUSED * bytes) {
      this.memory = new SharedArrayBuffer(bytes);
    }
    let start = 0;
    const copy = (stream: Uint8Array): Uint8Array => {
      const into = new Uint8Array(this.memory, start, stream.length);
      into.set(stream);
      start += stream.length;
      return into;
    };
    return payloads.map(({ streams, ...payload }) => {
      return { ...payload, streams: { ...streams, indices: copy(streams.indices), values: copy(streams.values) } };
    });
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
    run: (item: Section) => void,
    {
      payloads = [],
      onCoded,
    }: {
      readonly payloads?: readonly ReceivedPayload[];
      readonly onCoded?: (item: number, coded: SectionStreams) => void;
    } = {},
  ): void {
    const { control } = this;
    const items = itemsOf(work, tensors);
    const helpers = items.length > 1 ? this.helpers : [];
    const first = Atomics.load(control, CONTROL.next);
    Atomics.store(control, CONTROL.done, 0);
    const onlyApplied = kept.length > 0;
    const command: HelperCommand = { work, arena: index, part, step, onlyApplied, payloads, first };
    for (const { port } of helpers) port.postMessage(command);
    Atomics.add(control, CONTROL.commands, 1);
    Atomics.notify(control, CONTROL.commands);
    let failure = takeItems(control, first, items.length, number => run(items[number]!));
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
