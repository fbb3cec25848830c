import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { requireRoomForThread } from '../../address-space';
import { blaming } from '../../collectives/blaming';
import { sumSection } from '../../collectives/sparse-all-reduce';
import {
  type GradientStreams,
  joinSections,
  type Section,
  type SectionStreams,
  sectionsOf,
} from '../../compression/gradient-streams';
import type { MessageSeeds } from '../../compression/compressors/coded-treatment';
import type { TensorTreatment } from '../../compression/tensor-treatment';
import { deserializeError } from '../../errors';
import { ownFile } from '../../own-file';
import type { ReceivedPayload } from '../../wire/gradient-payload';
import type { ExchangePlan } from '../messages';
import { type MessageTensors, type StepArena, sumOf, type TensorWorkers } from '../routes/route';
import {
  bySize,
  CONTROL,
  type Failure,
  type HelperCommand,
  type HelperData,
  type HelperMessage,
  itemsOf,
  meansIn,
  type MessageInput,
  type MessageWork,
  type ReceivedMessages,
  noteOutcome,
  takeItems,
  takeItemsByTurns,
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
 * Does the work of a step on several threads: the comm thread, and helpers that sleep between steps. One thread does a
 * tensor, as it would be done without helpers. So the number of threads changes no bit. All threads work in the memory
 * of the arenas, where each has a workspace of its own.
 *
 * What is too small to be worth a helper, this thread does by itself.
 */
export class TensorThreads implements TensorWorkers {
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

  async writeMessages({ arena, tensors }: MessageTensors, seeds: MessageSeeds): Promise<Uint8Array[]> {
    const order = bySize(tensors);
    const written: Uint8Array[] = [];
    const keep = (item: number, message: Uint8Array) => (written[order[item]!] = message);
    const write = (item: number) => keep(item, tensors[order[item]!]!.message(seeds));
    const messages = { places: order.map(i => placeOf(tensors[i]!, arena)), seeds };
    await this.runByTurns('writeMessages', arena, messages, write, keep);
    return written;
  }

  async addMessages({ arena, tensors }: MessageTensors, byRank: readonly (readonly Uint8Array[])[]): Promise<void> {
    const order = bySize(tensors);
    const messagesOf = (tensor: number) => byRank.map(messages => messages[tensor]!);
    const add = (item: number) => tensors[order[item]!]!.average(messagesOf(order[item]!), blaming);
    const places = order.map(i => placeOf(tensors[i]!, arena));
    const received =
      this.helpers.length === 0 ? undefined : this.sharedMessages(order.flatMap(messagesOf), byRank.length);
    await this.runByTurns('addMessages', arena, { places, received }, add);
  }

  /** Messages in memory that all threads share. It is valid until the next call. */
  private sharedMessages(messages: readonly Uint8Array[], ranks: number): ReceivedMessages {
    let end = 0;
    const ends = Uint32Array.from(messages, ({ length }) => (end += length));
    const share = this.sharer(end);
    for (const message of messages) share(message);
    return { bytes: new Uint8Array(this.memory), ends, ranks };
  }

  /** The payloads, with their streams in memory that all threads share. It is valid until the next call. */
  private shared(payloads: readonly ReceivedPayload[]): ReceivedPayload[] {
    const share = this.sharer(sumOf(payloads, ({ streams }) => streams.indices.length + streams.values.length));
    return payloads.map(({ streams, ...payload }) => {
      return { ...payload, streams: { ...streams, indices: share(streams.indices), values: share(streams.values) } };
    });
  }

  /**
   * Makes room for so many bytes in memory that all threads share. The function copies bytes there, which are valid
   * until the next call.
   */
  private sharer(bytes: number): (given: Uint8Array) => Uint8Array {
    if (this.memory.byteLength < bytes || this.memory.byteLength > MOST_UNUSED * bytes) {
      this.memory = new SharedArrayBuffer(bytes);
    }
    let start = 0;
    return given => {
      const into = new Uint8Array(this.memory, start, given.length);
      into.set(given);
      start += given.length;
      return into;
    };
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
    work: Exclude<TensorWork, MessageWork>,
    arena: StepArena,
    run: (item: Section) => void,
    { payloads = [], onCoded }: { readonly payloads?: readonly ReceivedPayload[]; readonly onCoded?: OnCoded } = {},
  ): void {
    const items = itemsOf(work, arena.tensors);
    const begun = this.begin(work, arena, items.length, { payloads });
    const failure = takeItems(this.control, begun.first, items.length, item => run(items[item]!));
    this.end(begun, failure, message => {
      if ('coded' in message) onCoded?.(message.item, message.coded);
    });
  }

  /** Runs a work on messages on all threads. The event loop turns before each item of this thread. */
  private async runByTurns(
    work: MessageWork,
    arena: StepArena,
    messages: MessageInput,
    run: (item: number) => void,
    onWritten?: (item: number, written: Uint8Array) => void,
  ): Promise<void> {
    const begun = this.begin(work, arena, messages.places.length, { messages });
    const failure = await takeItemsByTurns(this.control, begun.first, begun.count, run);
    this.end(begun, failure, message => {
      if ('written' in message) onWritten?.(message.item, message.written);
    });
  }

  /** Tells the helpers of a work. */
  private begin(
    work: TensorWork,
    { index, part, step, kept }: StepArena,
    count: number,
    given: Pick<HelperCommand, 'messages'> & Partial<Pick<HelperCommand, 'payloads'>>,
  ): Begun {
    const { control } = this;
    const helpers = count > 1 ? this.helpers : [];
    const first = Atomics.load(control, CONTROL.next);
    Atomics.store(control, CONTROL.done, 0);
    const onlyApplied = kept.length > 0;
    const command: HelperCommand = { work, arena: index, part, step, onlyApplied, payloads: [], ...given, first };
    for (const { port } of helpers) port.postMessage(command);
    Atomics.add(control, CONTROL.commands, 1);
    Atomics.notify(control, CONTROL.commands);
    return { helpers, first, count };
  }

  /** Waits for the items that helpers have taken. Throws the first error of any thread. */
  private end({ helpers, count }: Begun, own: Failure | undefined, onMessage: (message: HelperMessage) => void): void {
    const { control } = this;
    for (let done; (done = Atomics.load(control, CONTROL.done)) < count;) Atomics.wait(control, CONTROL.done, done);
    let failure = own;
    for (const { port } of helpers) {
      for (let received; (received = receiveMessageOnPort(port)) !== undefined;) {
        const message = received.message as HelperMessage;
        if ('error' in message) failure ??= { error: deserializeError(message.error) };
        else onMessage(message);
      }
    }
    if (failure !== undefined) throw failure.error;
  }
}

type OnCoded = (item: number, coded: SectionStreams) => void;

/** A work that the helpers have been told of. */
interface Begun {
  readonly helpers: readonly Helper[];
  /** The number of the first item. */
  readonly first: number;
  readonly count: number;
}

/** The place of a tensor among those of its arena. */
function placeOf(tensor: TensorTreatment, { tensors }: StepArena): number {
  return tensor.number - tensors[0]!.number;
}

function elementsOf(tensors: readonly { readonly elementCount: number }[]): number {
  return sumOf(tensors, ({ elementCount }) => elementCount);
}
