import { setImmediate } from 'node:timers/promises';
import { allGatherBodies } from '../../collectives/all-gather';
import { blaming } from '../../collectives/blaming';
import type { CollectiveCall } from '../../collectives/collective-call';
import type { CompressionRing } from '../../compression/compressors/compressor';
import type { CompressorTreatment } from '../../compression/compressors/compressor-treatment';
import { decodeMaxima, decodeMessages, encodeMaxima, encodeMessages } from '../../wire/compressor-messages';
import { divideMessages } from './divide-messages';
import { agree } from './ring';
import type { Route, RoutedStep, StepClock } from './route';
import { SumBuffer } from './sum-buffer';

interface Requests {
  gather: { readonly sent: Uint8Array; readonly received: readonly Uint8Array[] };
  mean: { readonly sent: Float32Array; readonly received: Float32Array };
  largest: { readonly sent: Float32Array; readonly received: Float32Array };
}

type Kind = keyof Requests;

/** A request that waits for those of the other tensors. */
interface Waiting<K extends Kind = Kind> {
  readonly kind: K;
  readonly sent: Requests[K]['sent'];
  readonly resolve: (received: Requests[K]['received']) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * As the {@link Compressor}s of the tensors say, all of which run at the same time. When each tensor that is not done
 * waits for an answer, the requests travel together: one all-gather for the messages, one all-reduce for the means. All
 * that they ask for takes one path, that of bulk.
 *
 * What it costs is not known. Only the compressions of compressors take it, and they take no other.
 */
export class CompressorRoute implements Pick<Route, 'carry'> {
  private readonly sums = new SumBuffer();

  /** @param seed Of the random numbers of compressors. */
  constructor(private readonly seed: number) {}

  /** @throws what a compressor throws, or the ring. */
  async carry(step: RoutedStep) {
    const { call, arenas, means, clock, number, prices } = step;
    const path = call.inBulk();
    const agreed = await clock.travel(() => agree(path, step));
    if (agreed.nonFinite !== undefined) return agreed;
    const tensors = arenas.flatMap(arena => arena.tensors as readonly CompressorTreatment[]);
    const messages = tensors.flatMap(({ messageBits: bits, elementCount: elements }, tensor) =>
      bits === undefined ? [] : [{ tensor, bits, elements }],
    );
    for (const { tensor } of divideMessages(messages, prices).dense) tensors[tensor]!.takeDenseRing();
    const run = new Step(path, clock, this.sums, tensors.length);
    let turn: Promise<void> = Promise.resolve();
    try {
      await Promise.all(
        tensors.map(async (tensor, i) => {
          await (turn = turn.then(() => setImmediate())); // the event loop turns between two tensors
          if (run.isOver) return; // another tensor has failed
          const average = () => ({ done: tensor.average(run.ringOf(i), this.seed, number) });
          await clock.stage('encode', 'message', average).done; // the stage lasts up to the first request
          run.end(i);
        }),
      );
    } finally {
      run.isOver = true;
    }
    clock.stage('decode', 'means', () => means.check(arenas));
    return agreed;
  }
}

/** The requests of one step. */
class Step {
  isOver = false;
  private waiting = new Map<number, Waiting>();
  /** Tensors whose request is on its way. */
  private readonly asking = new Set<number>();

  constructor(
    private readonly call: CollectiveCall,
    private readonly clock: StepClock,
    private readonly sums: SumBuffer,
    private running: number,
  ) {}

  ringOf(tensor: number): CompressionRing {
    const ask = async <K extends Kind>(kind: K, sent: Requests[K]['sent']): Promise<Requests[K]['received']> => {
      if (this.isOver) throw new Error('The step is over: a compressor must await each of its requests.');
      if (this.asking.has(tensor)) throw new Error('A compressor must await each request before it makes the next.');
      const ArrayType = kind === 'gather' ? Uint8Array : Float32Array;
      if (!(sent instanceof ArrayType)) throw new TypeError(`A compressor passes a ${ArrayType.name} to ${kind}().`);
      this.asking.add(tensor);
      try {
        return await new Promise<Requests[K]['received']>((resolve, reject) => {
          this.waiting.set(tensor, { kind, sent: sent.slice(), resolve, reject } as unknown as Waiting);
          this.runIfAllWait();
        });
      } finally {
        this.asking.delete(tensor);
      }
    };
    return {
      rank: this.call.rank,
      worldSize: this.call.worldSize,
      gather: async (message, read) => {
        if (typeof read !== 'function') throw new TypeError('A compressor passes gather() a function, which reads.');
        const messages = await ask('gather', message);
        this.clock.stage('decode', 'messages', () => {
          for (const [rank, each] of messages.entries()) {
            const result: unknown = blaming(rank, () => read(each, rank));
            if (result instanceof Promise) throw new TypeError('The function that reads messages must not be async.');
          }
        });
      },
      mean: values => ask('mean', values),
      largest: values => ask('largest', values),
    };
  }

  end(tensor: number): void {
    if (this.asking.has(tensor)) throw new Error('A compressor has returned before its last request was answered.');
    this.running--;
    this.runIfAllWait();
  }

  private runIfAllWait(): void {
    const { waiting } = this;
    if (waiting.size === 0 || waiting.size < this.running) return;
    this.waiting = new Map();
    const inOrder = [...waiting].sort(([a], [b]) => a - b).map(([, each]) => each);
    this.exchange(inOrder).catch((error: unknown) => inOrder.forEach(({ reject }) => reject(error)));
  }

  private async exchange(waiting: readonly Waiting[]): Promise<void> {
    await Promise.resolve(); // so that the span of the last message ends before
    const { call, clock } = this;
    const of = <K extends Kind>(kind: K) => waiting.filter(each => each.kind === kind) as unknown as Waiting<K>[];
    const [gathers, means, maxima] = [of('gather'), of('mean'), of('largest')];
    if (maxima.length > 0) await clock.travel(() => largest(call, maxima));
    if (gathers.length > 0) await clock.travel(() => gather(call, gathers));
    if (means.length > 0) await clock.travel(() => this.sums.mean(call, means));
  }
}

async function gather(call: CollectiveCall, requests: readonly Waiting<'gather'>[]): Promise<void> {
  const bodies = await allGatherBodies(call, encodeMessages(requests.map(({ sent }) => sent)));
  const byRank = bodies.map((body, rank) => blaming(rank, () => decodeMessages(body, requests.length)));
  for (const [i, { resolve }] of requests.entries()) {
    if (i > 0) await setImmediate(); // decoding takes time
    resolve(byRank.map(messages => messages[i]!));
  }
}

async function largest(call: CollectiveCall, requests: readonly Waiting<'largest'>[]): Promise<void> {
  const all = joined(requests.map(({ sent }) => sent));
  const bodies = await allGatherBodies(call, encodeMaxima(all));
  for (const [rank, body] of bodies.entries()) {
    const values = blaming(rank, () => decodeMaxima(body, all.length));
    for (let i = 0; i < all.length; i++) all[i] = Math.max(all[i]!, values[i]!);
  }
  let start = 0;
  for (const { sent, resolve } of requests) resolve(all.slice(start, (start += sent.length)));
}

function joined(arrays: readonly Float32Array[]): Float32Array {
  const all = new Float32Array(arrays.reduce((sum, { length }) => sum + length, 0));
  let start = 0;
  for (const array of arrays) {
    all.set(array, start);
    start += array.length;
  }
  return all;
}
