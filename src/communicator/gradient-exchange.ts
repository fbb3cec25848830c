import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { allGatherBodies } from '../collectives/all-gather';
import type { CollectiveCall, CollectiveContext } from '../collectives/collective-call';
import { allReduce } from '../collectives/dense-ring';
import { type NonFinite, sparseAllReduce, type SparsePart } from '../collectives/sparse-all-reduce';
import { clipFactor } from '../compression/clip-factor';
import { valueFormatOf } from '../compression/dgc-options';
import { GradientCodec } from '../compression/gradient-codec';
import { sentCount } from '../compression/sparsity-schedule';
import { TensorCompressor } from '../compression/tensor-compressor';
import { GradringError } from '../errors';
import { INFINITE_MAGNITUDE, type Kernels, type Magnitude, type Pointer } from '../kernels/kernels';
import { instantiateKernels } from '../kernels/wasm-kernels';
import type { Transport } from '../transport/transport';
import { encodeGradientPayload, encodeNonFinite } from '../wire/gradient-payload';
import { type CallFingerprint, Operation, protocolError } from '../wire/frame';
import { entryBytes, type ExchangedTensor } from './arena-layout';
import { StepClock } from './step-clock';
import { costOf } from './step-cost';
import type { ArenaPlan, ExchangePlan, ExchangeResult, ExchangeStep } from './thread-protocol';

/** A tensor with what works on it. */
interface CompressedTensor extends ExchangedTensor {
  /** Among those of all arenas. */
  readonly number: number;
  readonly compressor: TensorCompressor;
}

/** An arena with what works on it. */
interface Arena extends ArenaPlan {
  /** For the collectives over its memory. */
  readonly context: CollectiveContext;
  readonly codec: GradientCodec;
  readonly tensors: readonly CompressedTensor[];
}

/** What a step makes of a tensor. */
type Way =
  /** Deep Gradient Compression: the largest of what was accumulated. */
  | 'largest'
  /** Whole, in a lossy format: what was lost before is added, what is lost now is kept. */
  | 'whole, with error feedback'
  /** Whole and exactly. */
  | 'whole';

/** A tensor in a step. */
interface StepTensor extends CompressedTensor {
  readonly way: Way;
  /** Entries that each rank sends of it. */
  readonly count: number;
  /** The indices of what is sent of it, where that are the largest. */
  readonly indices: Pointer;
  /** What is sent of it; after encoding, what the receivers get. */
  readonly values: Pointer;
  /** The largest magnitude of what is sent, once it is selected. */
  largest?: Magnitude;
}

/** An arena in a step. */
interface StepArena extends Arena {
  readonly tensors: readonly StepTensor[];
}

/**
 * The steps of one wrapped optimizer, on the comm thread: local gradients in, the same mean update on every rank out.
 *
 * Sparse tensors take Deep Gradient Compression's way: clip, accumulate with momentum, select, exchange, settle. Dense ones are
 * averaged first and get their momentum then, once. How the bytes travel is chosen by counting those of all tensors: as a
 * sparse all-gather, whose cost grows with the ranks, or by the dense ring, whose cost does not.
 *
 * With several arenas a rank's entries travel as one frame an arena, or one arena after the other goes round the dense ring. What
 * is sent leaves the residuals only when everything of the step has come.
 */
export class GradientExchange {
  private readonly arenas: readonly Arena[];
  private hasSentSparsely = false;

  constructor(
    private readonly transport: Transport,
    private readonly plan: ExchangePlan,
  ) {
    const format = valueFormatOf(plan.compression);
    let number = 0;
    this.arenas = plan.arenas.map((arena): Arena => {
      const { memory, workspace } = arena;
      const kernels = instantiateKernels(memory);
      const tensors = arena.tensors.map(tensor => {
        return { ...tensor, number: number++, compressor: new TensorCompressor(kernels, tensor, workspace) };
      });
      const context = { transport, kernels, memory, scratch: workspace };
      return { ...arena, tensors, context, codec: new GradientCodec(kernels, memory, format, workspace) };
    });
  }

  /** What all ranks must agree on for a step: model and options, and how much of it is sent. */
  fingerprint({ density, momentumFactor }: ExchangeStep): CallFingerprint {
    const parameter = crc32(new Uint8Array(Float64Array.of(density, momentumFactor).buffer), this.plan.hash);
    const elementCount = this.arenas.reduce((sum, { gradients }) => sum + gradients.elementCount, 0);
    return { operation: Operation.Exchange, elementType: 'float32', reduction: 'mean', elementCount, parameter };
  }

  /** Runs one step. On return the gradients' memory holds the update, unless some rank's gradient was not finite. */
  async run(call: CollectiveCall, step: ExchangeStep): Promise<ExchangeResult> {
    const { transport } = this;
    this.requireOrder(step.density);
    const arenas = this.arenas.map(arena => stepOf(arena, step.density));
    const clock = new StepClock(call, { tensors: arenas.reduce((sum, { tensors }) => sum + tensors.length, 0) });
    const nonFiniteTensor =
      step.nonFiniteTensor === -1
        ? await clock.stage('compress', 'select', () => this.compress(arenas, step))
        : step.nonFiniteTensor;
    const sentBefore = transport.traffic.bytesSent;
    const cost = costOf(arenas, transport.worldSize, transport.isLocal);
    const way = this.plan.compression.kind === 'dgc' && step.density < 1 ? (this.plan.way ?? cost.cheaper) : 'dense';
    const parts = way === 'sparse' && (await clock.stage('encode', 'payload', () => encode(arenas, nonFiniteTensor)));
    const nonFinite = await clock.travel(() =>
      parts ? sparseAllReduce(call, parts) : denseAllReduce(call, arenas, nonFiniteTensor),
    );
    const result = { bytesSent: transport.traffic.bytesSent - sentBefore, denseBytes: cost.denseBytes, way } as const;
    const average = () => nonFinite ?? overflowOf(arenas, () => true) ?? this.average(arenas, step);
    const overflow = await clock.stage('decode', 'average', average);
    if (overflow !== undefined) return { ...result, timesMs: clock.timesMs, nonFinite: overflow };
    await clock.stage('compress', 'settle', () => arenas.forEach(settle));
    return { ...result, timesMs: clock.timesMs };
  }

  /**
   * In a step that sends everything the momentum is that of the average, the same on all ranks; in others each rank has its
   * own. The former may become the latter, but not the other way round.
   */
  private requireOrder(density: number): void {
    if (density === 1 && this.hasSentSparsely) {
      const words =
        'A step that sends everything cannot follow one that does not, as the momenta of the ranks differ by then. Does a dense warm-up begin anew?';
      throw new GradringError('ERR_INVALID_ARGUMENT', words);
    }
    this.hasSentSparsely ||= density < 1;
  }

  /**
   * Accumulates the gradients, clipped, and leaves what is to be sent of each tensor in its `values`. Returns the number of a tensor
   * whose accumulated gradient has overflowed, or −1. (The largest are selected, so an infinite one is among them.)
   */
  private async compress(arenas: readonly StepArena[], step: ExchangeStep): Promise<number> {
    const { compression, nesterov } = this.plan;
    const { momentumFactor } = step;
    const clipNorm = compression.kind === 'dgc' ? compression.clipNorm : undefined;
    const gradientScale = clipFactor({
      sumOfSquares: step.sumOfSquares,
      clipNorm,
      worldSize: this.transport.worldSize,
    });
    let overflowed = -1;
    for (const [i, arena] of arenas.entries()) {
      if (i > 0) await setImmediate(); // gigabytes take seconds, in which this thread must be seen to live
      const { kernels } = arena.context;
      for (const tensor of arena.tensors) {
        const { number, compressor, way, count, gradient, residual, indices, values } = tensor;
        if (way === 'largest') {
          tensor.largest = compressor.compress({ count, momentumFactor, nesterov, gradientScale, indices, values });
          if (tensor.largest < INFINITE_MAGNITUDE) continue;
        } else {
          if (gradientScale !== 1) kernels.scale('float32', gradient, gradientScale, count);
          if (way === 'whole') continue;
          kernels.reduce('sum', 'float32', residual, gradient, count);
          kernels.copy(residual, values, count);
        }
        if (kernels.firstNonFinite(values, count) === -1) continue;
        overflowed = number;
        forget(kernels, tensor);
      }
    }
    return overflowed;
  }

  /** Averages the sums, and applies the momentum of the tensors that travelled whole, which may overflow. */
  private average(arenas: readonly StepArena[], { momentumFactor }: ExchangeStep): NonFinite | undefined {
    for (const { context, gradients, tensors } of arenas) {
      const { kernels, transport } = context;
      const { data, elementCount } = gradients;
      if (transport.worldSize > 1) kernels.scale('float32', data, 1 / transport.worldSize, elementCount);
      if (momentumFactor === 0) continue;
      for (const { way, gradient, momentum, elementCount } of tensors) {
        if (way !== 'largest') {
          kernels.applyMomentum(gradient, momentum, elementCount, momentumFactor, this.plan.nesterov);
        }
      }
    }
    return momentumFactor === 0 ? undefined : overflowOf(arenas, ({ way }) => way !== 'largest');
  }
}

/** Takes what was sent from the residuals. */
function settle({ context, tensors }: StepArena): void {
  const { kernels } = context;
  for (const { way, compressor, count, residual, indices, values } of tensors) {
    if (way === 'largest') compressor.settle(indices, values, count);
    if (way !== 'whole, with error feedback') continue;
    kernels.scale('float32', values, -1, count);
    kernels.reduce('sum', 'float32', residual, values, count);
  }
}

/** Begins a tensor anew whose state has overflowed, or would overflow at every step from now on. */
function forget(kernels: Kernels, { momentum, residual, elementCount }: StepTensor): void {
  kernels.clear(momentum, elementCount);
  kernels.clear(residual, elementCount);
}

/** What a step of that density makes of an arena's tensors, and where in its buffers their entries go. */
function stepOf(arena: Arena, density: number): StepArena {
  let { indices, values } = arena;
  const lossy = arena.codec.format !== 'float32';
  const tensors = arena.tensors.map((tensor): StepTensor => {
    const { elementCount, gradient } = tensor;
    if (!tensor.dense && density < 1) {
      const count = sentCount(elementCount, density);
      const entries = { way: 'largest', count, indices, values } as const;
      indices += entryBytes(count);
      values += entryBytes(count);
      return { ...tensor, ...entries };
    }
    // What of a sparse tensor travels whole does so by the dense ring, which loses nothing.
    if (!tensor.dense || !lossy) return { ...tensor, way: 'whole', count: elementCount, indices, values: gradient };
    const entries = { way: 'whole, with error feedback', count: elementCount, indices, values } as const;
    values += entryBytes(elementCount);
    return { ...tensor, ...entries };
  });
  // What lies behind is overwritten by turns, so nobody would notice at once.
  if (values > arena.workspace) throw new RangeError(`Density ${density} sends more than the schedule ever does.`);
  return { ...arena, tensors };
}

/**
 * The first tensor whose sum, or update, is not finite, as finite gradients may add up to infinity. All ranks have the same, and so find the
 * same; each forgets what it holds of every such tensor.
 */
function overflowOf(arenas: readonly StepArena[], concerns: (tensor: StepTensor) => boolean): NonFinite | undefined {
  let first: NonFinite | undefined;
  for (const { context, tensors } of arenas) {
    const { kernels } = context;
    for (const tensor of tensors) {
      if (!concerns(tensor) || Number.isFinite(kernels.sumOfSquares(tensor.gradient, tensor.elementCount))) continue;
      forget(kernels, tensor);
      first ??= { rank: undefined, tensor: tensor.number };
    }
  }
  return first;
}

/** This rank's payloads, one an arena, and where the sums are to go. */
function encode(arenas: readonly StepArena[], nonFiniteTensor: number): SparsePart[] {
  return arenas.map(({ context, codec, tensors, workspace, bytes }): SparsePart => {
    const payload =
      nonFiniteTensor === -1
        ? encodeGradientPayload({ format: codec.format, counts: undefined, streams: codec.encode(tensors) })
        : encodeNonFinite(nonFiniteTensor);
    // The sums may take the place of the gradients: those are encoded, or accumulated, by then.
    const summed = tensors.map(({ elementCount, count, gradient }) => ({ elementCount, count, sum: gradient }));
    const start = workspace + GradientCodec.workspaceBytes;
    return { kernels: context.kernels, codec, payload, tensors: summed, room: { start, bytes: bytes - start } };
  });
}

/** The same sum by the dense ring: what is not sent counts as zero. */
async function denseAllReduce(
  call: CollectiveCall,
  arenas: readonly StepArena[],
  nonFiniteTensor: number,
): Promise<NonFinite | undefined> {
  const nonFinite = await agreeOnFinite(call, arenas, nonFiniteTensor);
  if (nonFinite !== undefined) return nonFinite;
  for (const arena of arenas) {
    const { kernels } = arena.context;
    for (const { way, gradient, elementCount, count, indices, values } of arena.tensors) {
      if (way === 'largest') {
        kernels.clear(gradient, elementCount);
        kernels.scatterAdd(gradient, indices, values, count);
      } else if (way === 'whole, with error feedback') {
        kernels.copy(values, gradient, count);
      }
    }
    await allReduce(call.over(arena.context), arena.gradients, 'sum');
  }
  return undefined;
}

async function agreeOnFinite(
  call: CollectiveCall,
  arenas: readonly StepArena[],
  nonFiniteTensor: number,
): Promise<NonFinite | undefined> {
  const tensorCount = arenas.reduce((sum, { tensors }) => sum + tensors.length, 0);
  const own = new Uint8Array(4);
  new DataView(own.buffer).setInt32(0, nonFiniteTensor, true);
  for (const [rank, body] of (await allGatherBodies(call, own)).entries()) {
    const tensor = body.length === 4 ? new DataView(body.buffer, body.byteOffset, 4).getInt32(0, true) : NaN;
    if (!(tensor >= -1 && tensor < tensorCount)) throw protocolError(`of rank ${rank} holds no tensor number`);
    if (tensor !== -1) return { rank, tensor };
  }
  return undefined;
}
