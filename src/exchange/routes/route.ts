import type { CollectiveCall, CollectiveContext } from '../../collectives/collective-call';
import type { Agreed, NonFinite } from '../../collectives/sparse-all-reduce';
import { clipFactor } from '../../compression/clipping';
import type { CompressionMethod } from '../../compression/compression-method';
import type { CodedTreatment, MessageSeeds } from '../../compression/compressors/coded-treatment';
import type { GradientCodec } from '../../compression/gradient-codec';
import type { GradientStreams } from '../../compression/gradient-streams';
import type { TensorPlace, TensorTreatment, TreatmentStep } from '../../compression/tensor-treatment';
import type { Listener, Span, SpanArguments } from '../../observer';
import type { ReceivedPayload } from '../../wire/gradient-payload';
import type { ExchangedTensor } from '../arena-layout';
import type { ArenaPlan, StepTimes } from '../messages';

/** How the gradients of a step travel from each rank to all. Each has a file; {@link ROUTES} has the list. */
export interface Route {
  /**
   * What a step of that load is expected to cost a rank. It depends only on what all ranks know, so that all make the
   * same choice. Undefined if no step should take this route unasked.
   */
  cost(load: StepLoad, prices: Prices): RouteCost | undefined;
  /**
   * Carries a step. Afterwards the gradients of all arenas are means over the ranks. The residuals are not touched:
   * they are settled when nothing of the step can fail any more.
   *
   * @returns what is not finite, on the lowest rank that has such a value, and what the ranks tell each other. If
   *   something is not finite, the gradients are undefined.
   */
  carry(step: RoutedStep): Promise<Agreed>;
}

/** A step on its way. */
export interface RoutedStep {
  readonly call: CollectiveCall;
  readonly arenas: readonly StepArena[];
  /** The number of a tensor that is not finite on this rank. */
  readonly nonFiniteTensor: number | undefined;
  /** What this rank tells the others: a byte of bits. */
  readonly notices: number;
  readonly means: Means;
  readonly workers: TensorWorkers;
  readonly clock: StepClock;
  /** The number of the step in its training. */
  readonly number: number;
  /** Prices are the same on all ranks. */
  readonly prices: Prices;
  /** Whether a payload says how many entries each tensor has: ranks may differ. */
  readonly sendsCounts: boolean;
}

/** What works on the tensors of a step, on several threads if the rank has them. */
export interface TensorWorkers {
  /** Encodes the entries of an arena. The streams are valid until the next call. */
  encode(arena: StepArena): GradientStreams;
  /**
   * Decodes the payloads of all ranks. Their mean takes the place of the gradients.
   *
   * @returns the tensors whose sum has overflowed.
   * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a payload that does not fit the tensors.
   */
  average(arena: StepArena, payloads: readonly ReceivedPayload[]): Set<TensorTreatment>;
  /** Makes the messages of tensors, in their order. The event loop turns meanwhile. */
  writeMessages(coded: MessageTensors, seeds: MessageSeeds): Promise<Uint8Array[]>;
  /**
   * Adds the messages of all ranks. Their mean takes the place of the gradients. The event loop turns meanwhile.
   *
   * @param byRank Of each rank those of all tensors.
   * @throws GradringError `ERR_PROTOCOL`, naming the rank, for a message that cannot be read.
   */
  addMessages(coded: MessageTensors, byRank: readonly (readonly Uint8Array[])[]): Promise<void>;
}

/** Some tensors of an arena, each of which travels as a message. */
export interface MessageTensors {
  readonly arena: StepArena;
  readonly tensors: readonly CodedTreatment[];
}

/** What a rank sends in a step: the tensors that are sent whole, and the entries of the others. */
export interface StepLoad {
  readonly whole: EntryLoad;
  readonly others: EntryLoad;
}

/** All tensors of a step. */
export function allOf({ whole, others }: StepLoad): EntryLoad {
  return {
    elements: whole.elements + others.elements,
    entries: whole.entries + others.entries,
    payloadBytes: whole.payloadBytes + others.payloadBytes,
  };
}

export interface EntryLoad {
  /** Of the tensors. */
  readonly elements: number;
  /** How many of them are sent. */
  readonly entries: number;
  /** What the entries take in a payload. */
  readonly payloadBytes: number;
}

/** About the size of a frame header and a payload table. */
export const FRAME_OVERHEAD_BYTES = 160;

/** What a step is paid with in a ring of so many ranks. Times are in ns. */
export interface Prices {
  readonly worldSize: number;
  /** How many ranks have a payload with entries. */
  readonly senders: number;
  /** From an entry to bytes, and back to a sum. */
  readonly encodeNs: number;
  readonly decodeNs: number;
  /** A byte of a payload to a neighbour, and of the dense ring, with its sum. */
  readonly byteNs: number;
  readonly ringByteNs: number;
  /** What each hop adds to a byte of a payload, which is passed on when it has come whole. */
  readonly relayNs: number;
  /** A message without data to a neighbour. */
  readonly hopNs: number;
}

export interface RouteCost {
  /** What the rank computes by itself. */
  readonly computeNs: number;
  /** From the first message to the last. The sums of the dense ring are part of it. */
  readonly travelNs: number;
  readonly sentBytes: number;
}

/** The sum of what each has. */
export function sumOf<T>(all: readonly T[], value: (each: T) => number): number {
  return all.reduce((sum, each) => sum + value(each), 0);
}

/** Records the stages of a step of an exchange, and adds up the time that it spends in each kind of span. */
export class StepClock implements Listener {
  readonly kinds = ['compress', 'encode', 'decode'] as const;
  /** So far. */
  readonly timesMs: { -readonly [kind in keyof StepTimes]: number } = { compress: 0, encode: 0, travel: 0, decode: 0 };

  constructor(
    private readonly call: CollectiveCall,
    private readonly args: SpanArguments,
  ) {}

  onSpan({ kind, start, end }: Span): void {
    this.timesMs[kind as (typeof this.kinds)[number]] += (end - start) / 1000;
  }

  /** Runs a stage, until its promise has settled if it returns one. */
  stage<T>(kind: (typeof this.kinds)[number], stage: string, run: () => T): T {
    const { sequence, observer } = this.call;
    return observer.record(kind, { sequence, stage, ...this.args }, run);
  }

  /** Runs the collective. It travels until its last frame has come. */
  async travel<T>(run: () => Promise<T>): Promise<T> {
    const start = performance.now();
    const result = await run();
    const { last = start } = this.call.frameTimes;
    this.timesMs.travel += Math.max(0, last - start); // perhaps no frame came
    return result;
  }
}

/** An arena with what works on it. */
export interface Arena extends ArenaPlan {
  /** The number of the arena. */
  readonly index: number;
  /** For the collectives over its memory. */
  readonly context: CollectiveContext;
  readonly codec: GradientCodec;
  readonly method: CompressionMethod;
  readonly tensors: readonly (ExchangedTensor & TensorPlace)[];
}

/** An arena in a step. */
export interface StepArena extends Omit<Arena, 'tensors'> {
  readonly step: TreatmentStep;
  /** Which of its tensors these are. */
  readonly part: TensorPart;
  readonly tensors: readonly TensorTreatment[];
  /**
   * What this rank has taken back of what was sent. It goes to the residuals when the step cannot fail any more. If
   * there is anything, the route has applied only a part of what was sent.
   */
  readonly kept: KeptEntries[];
}

/** Entries of a tensor. Their indices are counted from the element `start`. */
export interface KeptEntries {
  readonly tensor: TensorTreatment;
  readonly start: number;
  readonly indices: Uint32Array;
  readonly values: Float32Array;
}

/** All tensors of an arena, those that are always sent whole, or the others. */
export type TensorPart = 'all' | 'whole' | 'others';

export function ofPart<T extends { readonly isWhole: boolean }>(tensors: readonly T[], part: TensorPart): T[] {
  return tensors.filter(({ isWhole }) => part === 'all' || isWhole === (part === 'whole'));
}

/** Prepares a step of an arena. */
export function stepOf(arena: Arena, step: TreatmentStep): StepArena {
  return { ...arena, step, part: 'all', tensors: treatmentsOf(arena, step), kept: [] };
}

/** Chooses how a step treats an arena's tensors, and where in its buffers their entries go. All threads do so alike. */
export function treatmentsOf(
  arena: Pick<Arena, 'method' | 'tensors' | 'indices' | 'values' | 'workspace'>,
  step: TreatmentStep,
): TensorTreatment[] {
  let { indices, values } = arena;
  const treatments = arena.tensors.map(tensor => {
    const kind = arena.method.treatment(tensor.isWhole, step.density);
    const treatment = new kind(tensor, step, indices, values);
    const room = kind.room(tensor.elementCount, step.density);
    indices += room.indexBytes;
    values += room.valueBytes;
    return treatment;
  });
  // Entries behind that would be overwritten later, without an error.
  if (values > arena.workspace) throw new RangeError(`Density ${step.density} sends more than the schedule ever does.`);
  return treatments;
}

/**
 * The means of a step, in the place of the gradients. It notes the tensors that have overflowed: finite gradients may
 * add up to infinity.
 */
export class Means {
  private readonly overflowed = new Set<TensorTreatment>();

  constructor(private readonly worldSize: number) {}

  /** Turns the sums of all tensors into means. */
  takeAll(arenas: readonly StepArena[]): void {
    for (const { context, tensors } of arenas) {
      for (const tensor of tensors) {
        const { gradient, elementCount } = tensor;
        if (!context.kernels.scale('float32', gradient, 1 / this.worldSize, elementCount)) this.overflowed.add(tensor);
      }
    }
  }

  /** The sums of these tensors have overflowed. */
  overflow(tensors: Iterable<TensorTreatment>): void {
    for (const tensor of tensors) this.overflowed.add(tensor);
  }

  /** Takes means, which are in the place of the gradients. */
  check(arenas: readonly StepArena[]): void {
    for (const { context, tensors } of arenas) {
      for (const tensor of tensors) {
        if (!context.kernels.allFinite(tensor.gradient, tensor.elementCount)) this.overflowed.add(tensor);
      }
    }
  }

  /** Clips the means of all tensors together to a norm. All ranks do the same, as all have the same means. */
  clip(arenas: readonly StepArena[], clipNorm: number): void {
    if (this.overflowed.size > 0) return;
    let sumOfSquares = 0;
    for (const { context, tensors } of arenas) {
      for (const { gradient, elementCount } of tensors) {
        sumOfSquares += context.kernels.sumOfSquares(gradient, elementCount);
      }
    }
    const factor = clipFactor({ sumOfSquares, clipNorm, worldSize: 1 });
    if (factor === 1) return;
    for (const { context, tensors } of arenas) {
      for (const { gradient, elementCount } of tensors) {
        context.kernels.scale('float32', gradient, factor, elementCount);
      }
    }
  }

  /** Applies the momentum to the means. Not if one has overflowed. */
  applyMomentum(arenas: readonly StepArena[]): void {
    if (this.overflowed.size > 0) return;
    for (const { tensors } of arenas) {
      for (const tensor of tensors) if (!tensor.applyMomentum()) this.overflowed.add(tensor);
    }
  }

  /** Forgets the state of what has overflowed, and names the first. All ranks do so, as all have the same sums. */
  forgetOverflowed(): NonFinite | undefined {
    if (this.overflowed.size === 0) return undefined;
    for (const tensor of this.overflowed) tensor.forget();
    return { rank: undefined, tensor: Math.min(...[...this.overflowed].map(({ number }) => number)) };
  }
}
