/**
 * The comm thread: a worker that owns the sockets and runs the collectives, one at a time, in the order in which the user's
 * thread asked for them. The user's thread may sleep in `Atomics.wait` meanwhile; this one never does.
 */
import { workerData } from 'node:worker_threads';
import { context } from 'zeromq';
import { allGather, barrier } from '../collectives/all-gather';
import { CollectiveCall, type CollectiveContext } from '../collectives/collective-call';
import { allReduce, broadcast, type DenseArray, reduceScatter } from '../collectives/dense-ring';
import { ELEMENT_BYTES } from '../collectives/element-type';
import { sparseAllReduce } from '../collectives/sparse-all-reduce';
import { GradringError, serializeError } from '../errors';
import { instantiateKernels } from '../kernels/wasm-kernels';
import { type CallFingerprint, describeCall, Operation } from '../wire/frame';
import { encodeGradientPayload } from '../wire/gradient-payload';
import { closeAllSockets } from '../transport/open-sockets';
import { formRing } from './form-ring';
import { GradientExchange } from './gradient-exchange';
import {
  type Commands,
  type CommandName,
  CONTROL,
  type End,
  READY,
  type Reduction,
  type Request,
  type Response,
  type ThreadData,
} from './thread-protocol';

const BEAT_MS = 500;

class CommThread {
  private readonly exchanges = new Map<number, { exchange: GradientExchange; hash: number; elementCount: number }>();
  private sequence = 0;
  private readonly requests: Request[] = [];
  private running = false;
  private failure: GradringError | undefined;

  constructor(
    private readonly data: ThreadData,
    private readonly context: CollectiveContext,
  ) {}

  /** The ring has failed, whether or not a collective is under way: every later request gets this error. */
  onRingFailure(error: GradringError): void {
    this.failure ??= error;
  }

  /** Leaves the ring, whatever is under way. */
  close(): Promise<void> {
    return this.context.transport.close();
  }

  enqueue(request: Request): void {
    this.requests.push(request);
    if (!this.running) void this.runAll();
  }

  private async runAll(): Promise<void> {
    this.running = true;
    for (let request = this.requests.shift(); request !== undefined; request = this.requests.shift()) {
      const { id, name, input } = request;
      try {
        respond(this.data, this.context, { id, result: await this.run(name, input as never) });
      } catch (error) {
        respond(this.data, this.context, { id, error: serializeError(error, 'ERR_COMM_THREAD') });
      }
    }
    this.running = false;
  }

  private run<Name extends CommandName>(name: Name, input: Commands[Name]['input']): Promise<Commands[Name]['result']> {
    const handlers: { [N in CommandName]: (input: Commands[N]['input']) => Promise<Commands[N]['result']> } = {
      allReduce: ({ array, reduction }) =>
        this.collective(dense(Operation.AllReduce, array, { reduction }), async call => {
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
      allGather: ({ array, lengths }) => {
        const bytes = new Uint8Array(
          this.context.memory.buffer,
          array.data,
          array.elementCount * ELEMENT_BYTES[array.type],
        );
        const elementCount = lengths === 'equal' ? array.elementCount : 0;
        const parameter = lengths === 'equal' ? 0 : 1; // else arrays of no elements could not be told from any length
        return this.collective(dense(Operation.AllGather, { ...array, elementCount }, { parameter }), call =>
          allGather(call, bytes, lengths),
        );
      },
      broadcast: ({ array, root }) =>
        this.collective(dense(Operation.Broadcast, array, { parameter: root }), call => broadcast(call, array, root)),
      barrier: () =>
        this.collective(
          { operation: Operation.Barrier, elementType: 'none', reduction: 'none', elementCount: 0, parameter: 0 },
          barrier,
        ),
      sparseAllReduce: input => this.sparseAllReduce(input),
      openExchange: async ({ exchange, plan }) => {
        this.exchanges.set(exchange, {
          exchange: new GradientExchange(this.context, plan),
          hash: plan.hash,
          elementCount: plan.gradients.elementCount,
        });
      },
      exchange: ({ exchange: id, step }) => {
        const { exchange, hash, elementCount } = this.exchanges.get(id)!;
        const fingerprint = { elementType: 'float32', reduction: 'mean', elementCount, parameter: hash } as const;
        return this.collective({ operation: Operation.Exchange, ...fingerprint }, call => exchange.run(call, step));
      },
      closeExchange: async ({ exchange }) => {
        this.exchanges.delete(exchange);
      },
      close: () => this.context.transport.close(),
    };
    return handlers[name](input);
  }

  private async sparseAllReduce(input: Commands['sparseAllReduce']['input']): Promise<void> {
    const { memory } = this.context;
    const { indices, values, count, elementCount, output } = input;
    const tensors = [{ elementCount, dense: false, sum: output }];
    const payload = encodeGradientPayload(
      {
        counts: [count],
        indices: new Uint8Array(memory.buffer, indices, count * 4),
        values: new Uint8Array(memory.buffer, values, count * 4),
        dense: new Uint8Array(0),
      },
      tensors,
    );
    const fingerprint = { elementType: 'float32', reduction: 'sum', elementCount, parameter: 0 } as const;
    await this.collective({ operation: Operation.SparseAllReduce, ...fingerprint }, call =>
      sparseAllReduce(call, payload, tensors),
    );
  }

  /** Runs one collective within its deadline. Whatever goes wrong in it ends the ring, for the neighbours wait for us. */
  private async collective<T>(fingerprint: CallFingerprint, run: (call: CollectiveCall) => Promise<T>): Promise<T> {
    if (this.failure !== undefined) throw unusable(this.failure);
    const { transport } = this.context;
    const { rank, timeoutMs } = this.data.options;
    const sequence = this.sequence++;
    const call = describeCall(fingerprint);
    const deadline = setTimeout(() => {
      const words = `Rank ${rank} waited ${timeoutMs} ms in ${call}, its collective ${sequence}: a rank is late or hangs.`;
      transport.fail(new GradringError('ERR_TIMEOUT', words, { operation: call }));
    }, timeoutMs);
    try {
      return await run(new CollectiveCall(this.context, sequence, fingerprint));
    } catch (error) {
      const coded =
        error instanceof GradringError
          ? error
          : new GradringError(
              'ERR_COMM_THREAD',
              `Rank ${rank} failed in ${call}: ${String(error)}`,
              { rank },
              { cause: error },
            );
      this.failure ??= coded;
      transport.fail(coded);
      throw new GradringError(
        this.failure.code,
        `${this.failure.message} (Rank ${rank} was in ${call}, its collective ${sequence}.)`,
        {
          ...this.failure.details,
          operation: call,
        },
      );
    } finally {
      clearTimeout(deadline);
    }
  }

  private average({ type, data, elementCount }: DenseArray, reduction: Reduction): void {
    if (reduction !== 'mean' || (type !== 'float32' && type !== 'float64')) return;
    this.context.kernels.scale(type, data, 1 / this.context.transport.worldSize, elementCount);
  }
}

function dense(
  operation: Operation,
  array: DenseArray,
  { reduction = 'none', parameter = 0 }: { reduction?: Reduction | 'none'; parameter?: number } = {},
): CallFingerprint {
  return { operation, elementType: array.type, reduction, elementCount: array.elementCount, parameter };
}

function unusable(failure: GradringError): GradringError {
  return new GradringError(
    failure.code,
    `The ring has failed and cannot be used any more: ${failure.message}`,
    failure.details,
  );
}

function respond(
  { port, control }: ThreadData,
  context: CollectiveContext | undefined,
  response: Omit<Response, 'traffic'>,
): void {
  const traffic = context?.transport.traffic ?? { bytesSent: 0, bytesReceived: 0 };
  const transfer = Array.isArray(response.result)
    ? (response.result as Uint8Array[]).map(bytes => bytes.buffer as ArrayBuffer)
    : [];
  port.postMessage({ ...response, traffic } satisfies Response, transfer);
  Atomics.add(control, CONTROL.responses, 1);
  Atomics.notify(control, CONTROL.responses);
}

async function main(data: ThreadData): Promise<void> {
  context.blocky = false; // every socket has a linger of its own, so the end of the process needs no warning that it waits
  const { options, memory, scratch, port, control } = data;
  const beat = setInterval(() => Atomics.add(control, CONTROL.beat, 1), BEAT_MS);
  let thread: CommThread | undefined;
  /** After this nothing keeps the thread alive. */
  const end = async (how: End) => {
    if (how === 'leave') await thread?.close();
    await closeAllSockets();
    clearInterval(beat);
    port.close();
    Atomics.store(control, CONTROL.closed, 1);
    Atomics.notify(control, CONTROL.closed);
  };
  port.on('message', (request: Request | End) => {
    if (typeof request === 'string') void end(request);
    else thread?.enqueue(request);
  });
  process.on('uncaughtException', error => {
    thread?.onRingFailure(new GradringError('ERR_COMM_THREAD', `The comm thread failed: ${error.stack}`));
    void end('drop');
  });
  try {
    const transport = await formRing(options, error => thread?.onRingFailure(error));
    const collectives = { transport, kernels: instantiateKernels(memory), memory, scratch };
    thread = new CommThread(data, collectives);
    respond(data, collectives, { id: READY });
  } catch (error) {
    respond(data, undefined, { id: READY, error: serializeError(error, 'ERR_COMM_THREAD') });
  }
}

void main(workerData as ThreadData);
