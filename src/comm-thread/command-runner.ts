import { allGather, barrier } from '../collectives/all-gather';
import { CallMismatch, CollectiveCall, type CollectiveContext, SCRATCH_BYTES } from '../collectives/collective-call';
import { bytesOf, type DenseArray } from '../collectives/dense-array';
import { allReduce, broadcast, reduceScatter } from '../collectives/dense-ring';
import { ELEMENT_BYTES, isFloat } from '../collectives/element-type';
import { sendReceive } from '../collectives/send-receive';
import { sparseAllReduce, sumPayloads } from '../collectives/sparse-all-reduce';
import { GradientCodec } from '../compression/gradient-codec';
import { GradientExchange, settingsOf } from '../exchange/gradient-exchange';
import { collectGarbage } from '../memory/buffers';
import type { Transport } from '../transport/transport';
import { describeCall } from '../wire/describe-call';
import { type CallFingerprint, Operation, Purpose } from '../wire/frame';
import { encodeGradientPayload } from '../wire/gradient-payload';
import type { StepSettings } from '../wire/rank-status';
import { describeNumbered } from './absent-ranks';
import { awaitOthers } from './await-others';
import { explainMismatch } from './explain-mismatch';
import { failCall, requireUsable } from './failed-call';
import { MessageRunner } from './message-runner';
import { type StallOptions, StallWatch } from './stall-watch';
import type { Commands, Reduction, RingCommand } from './thread-protocol';

/**
 * Runs commands on the comm thread, one at a time; `send` and `receive` may run beside others. After the first failure,
 * in a collective or between two, every later collective fails with the same error.
 */
export class CommandRunner {
  private readonly exchanges = new Map<number, GradientExchange>();
  /** Number of the next collective, the same on all ranks. */
  private sequence = 0;
  private watch: StallWatch;
  private messages: MessageRunner;

  /** @param say Prints a line for the user when a collective waits for a long time. */
  constructor(
    private context: CollectiveContext,
    private readonly options: StallOptions,
    private readonly say: (line: string) => void,
  ) {
    this.watch = new StallWatch(context.transport, options, say);
    this.messages = new MessageRunner(context.transport, options, say);
  }

  /** Continues with another ring. No collective may be under way. */
  moveTo(transport: Transport): void {
    this.context = { ...this.context, transport };
    this.watch = new StallWatch(transport, this.options, this.say);
    this.messages = new MessageRunner(transport, this.options, this.say);
    for (const exchange of this.exchanges.values()) exchange.moveTo(transport);
    this.sequence = 0;
  }

  run<Name extends RingCommand>(name: Name, input: Commands[Name]['input']): Promise<Commands[Name]['result']> {
    return this.handlers[name](input);
  }

  private readonly handlers: { [N in RingCommand]: (input: Commands[N]['input']) => Promise<Commands[N]['result']> } = {
    allReduce: ({ array, reduction, purpose }) =>
      this.collective(dense(Operation.AllReduce, array, { reduction, purpose }), async call => {
        await allReduce(call, array, reduction === 'mean' ? 'sum' : reduction);
        this.average(array, reduction);
      }),
    reduceScatter: ({ array, reduction }) =>
      this.collective(dense(Operation.ReduceScatter, array, { reduction }), async call => {
        const { start, count } = await reduceScatter(call, array, reduction === 'mean' ? 'sum' : reduction);
        const data = array.data + start * ELEMENT_BYTES[array.type];
        this.average({ type: array.type, data, elementCount: count }, reduction);
        return { start, count };
      }),
    allGather: ({ array, lengths, purpose }) => {
      const bytes = bytesOf(this.context.memory, array);
      const elementCount = lengths === 'equal' ? array.elementCount : 0;
      const parameter = lengths === 'equal' ? 0 : 1; // or equal lengths of 0 would look like variable ones
      const fingerprint = dense(Operation.AllGather, { ...array, elementCount }, { parameter, purpose });
      return this.collective(fingerprint, call => allGather(call, bytes, lengths));
    },
    broadcast: ({ array, root, purpose }) => {
      const fingerprint = dense(Operation.Broadcast, array, { parameter: root, purpose });
      return this.collective(fingerprint, call => broadcast(call, array, root));
    },
    barrier: ({ purpose }) => {
      const nothing = { elementType: 'none', reduction: 'none', elementCount: 0, parameter: 0 } as const;
      return this.collective({ operation: Operation.Barrier, purpose, ...nothing }, barrier);
    },
    sendReceive: ({ array }) => this.collective(dense(Operation.SendReceive, array), call => sendReceive(call, array)),
    send: ({ array, to, tag }) => {
      const bytes = bytesOf(this.context.memory, array);
      return this.messages.send(to, tag, { elementType: array.type, bytes });
    },
    receive: ({ from, tag }) => this.messages.receive(from, tag),
    sparseAllReduce: input => this.sparseAllReduce(input),
    openExchange: async ({ exchange, plan }) => {
      this.exchanges.set(exchange, new GradientExchange(this.context.transport, plan));
    },
    exchange: ({ exchange: id, step }) => {
      const exchange = this.exchanges.get(id)!;
      const settings = settingsOf(step);
      const fingerprint = exchange.fingerprint(settings);
      return this.collective(fingerprint, call => exchange.run(call, step), { step: step.step, settings });
    },
    concludeExchange: async ({ exchange, applied }) => this.exchanges.get(exchange)!.conclude(applied),
    closeExchange: async ({ exchange }) => {
      this.exchanges.get(exchange)!.close();
      this.exchanges.delete(exchange);
      collectGarbage();
    },
    awaitOthers: async () => {
      requireUsable(this.context.transport);
      if (this.sequence > 0) await awaitOthers(this.context.transport, this.sequence - 1, this.options.timeoutMs);
    },
    askMedia: async () => {
      const { links, bulk } = this.context.transport;
      return { links: links.media, bulk: bulk.media };
    },
    close: () => this.context.transport.close(),
  };

  private async sparseAllReduce(input: Commands['sparseAllReduce']['input']): Promise<void> {
    const { kernels, memory, scratch } = this.context;
    const { indices, values, count, elementCount, output } = input;
    const codec = new GradientCodec(kernels, memory, 'float32', scratch);
    const used = GradientCodec.workspaceBytes;
    const room = { start: scratch + used, bytes: SCRATCH_BYTES - used };
    const sum = { elementType: 'float32', reduction: 'sum', elementCount, parameter: 0 } as const;
    const fingerprint = { operation: Operation.SparseAllReduce, purpose: Purpose.Call, ...sum };
    await this.collective(fingerprint, async call => {
      const payload = call.observer.record('encode', { sequence: call.sequence, stage: 'payload', tensors: 1 }, () => {
        const streams = codec.encode([{ elementCount, count, indices, values }]);
        return encodeGradientPayload({ format: codec.format, counts: [count], streams });
      });
      const sums = { kernels, codec, tensors: [{ elementCount, sum: output }], room };
      const tensors = [{ elementCount, count: undefined }];
      const { format } = codec;
      await sparseAllReduce(call, [{ payload, format, tensors, sum: payloads => sumPayloads(sums, payloads) }]);
    });
  }

  /**
   * Runs one collective within its timeout. Any error in it ends the ring, because the neighbours wait for this rank.
   *
   * @param own The optimizer's step, if the collective is one.
   */
  private async collective<T>(
    fingerprint: CallFingerprint,
    run: (call: CollectiveCall) => Promise<T>,
    own: { readonly step: number | undefined; readonly settings: StepSettings | undefined } = NO_STEP,
  ): Promise<T> {
    const { transport } = this.context;
    const { step } = own;
    const where = () => ({ operation: describeCall(fingerprint), ...(step !== undefined && { step }) });
    requireUsable(transport, where);
    const { observer } = transport;
    const sequence = this.sequence++;
    const path = BY_LINKS.includes(fingerprint.operation) ? transport.links : transport.bulk;
    this.watch.begin({ fingerprint, sequence, ...own });
    observer.gauge('underWay', 1);
    const startedAt = observer.startOf('collective');
    try {
      return await run(new CollectiveCall(this.context, sequence, fingerprint, path));
    } catch (thrown) {
      const error = thrown instanceof CallMismatch ? await explainMismatch(thrown, own, transport) : thrown;
      const words = describeNumbered({ call: fingerprint, sequence, step });
      throw await failCall(transport, error, { where: where(), words });
    } finally {
      this.watch.end();
      if (startedAt !== undefined) observer.ended('collective', startedAt, { sequence }, describeCall(fingerprint));
      observer.count('collectives');
      observer.gauge('underWay', 0);
    }
  }

  private average({ type, data, elementCount }: DenseArray, reduction: Reduction): void {
    if (reduction !== 'mean' || !isFloat(type)) return;
    this.context.kernels.scale(type, data, 1 / this.context.transport.worldSize, elementCount);
  }
}

/**
 * The collectives whose frames take the links. The others move dense arrays, which are bulk. An optimizer step takes
 * the links, unless it turns out to be dense; see {@link GradientExchange}.
 */
const BY_LINKS: readonly Operation[] = [Operation.Barrier, Operation.SparseAllReduce, Operation.Exchange];

/** For collectives that are not optimizer steps. */
const NO_STEP = { step: undefined, settings: undefined };

function dense(
  operation: Operation,
  array: DenseArray,
  {
    reduction = 'none',
    parameter = 0,
    purpose = Purpose.Call,
  }: { reduction?: Reduction | 'none'; parameter?: number; purpose?: Purpose } = {},
): CallFingerprint {
  return { operation, purpose, elementType: array.type, reduction, elementCount: array.elementCount, parameter };
}
