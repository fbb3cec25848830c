import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { allGatherBodies } from '../collectives/all-gather';
import type { CollectiveCall } from '../collectives/collective-call';
import { allReduce } from '../collectives/dense-ring';
import { type NonFinite, sparseAllReduce, type SparsePart } from '../collectives/sparse-all-reduce';
import { clipFactor } from '../compression/clip-factor';
import { valueFormatOf } from '../compression/dgc-options';
import { GradientCodec } from '../compression/gradient-codec';
import { TensorCompressor } from '../compression/tensor-compressor';
import { GradringError } from '../errors';
import { INFINITE_MAGNITUDE, type Pointer } from '../kernels/kernels';
import { instantiateKernels } from '../kernels/wasm-kernels';
import type { Transport } from '../transport/transport';
import { encodeGradientPayload, encodeNonFinite } from '../wire/gradient-payload';
import { type CallFingerprint, Operation, protocolError, Purpose } from '../wire/frame';
import type { StepSettings } from '../wire/rank-status';
import { forgetAll, forgetOwn, Means, type Overflowed } from './means';
import { StepClock } from './step-clock';
import { costOf } from './step-cost';
import { type Arena, type StepArena, stepOf } from './step-tensors';
import type { ExchangePlan, ExchangeResult, ExchangeStep } from './messages';

/**
 * The steps of one wrapped optimizer, on the comm thread: local gradients in, the same mean update on every rank out.
 *
 * Sparse tensors take Deep Gradient Compression's way: clip, accumulate with momentum, select, exchange, settle. Dense
 * ones are averaged first and get their momentum then, once. How the entries travel is chosen by what each way would
 * cost: as a sparse all-gather, whose cost grows with the ranks, or by the dense ring, whose cost does not.
 *
 * With several arenas a rank's entries travel as one frame an arena, or one arena after the other goes round the dense
 * ring. What is sent leaves the residuals only when everything of the step has come.
 */
export class GradientExchange {
  private arenas: readonly Arena[];
  private hasSentSparsely = false;
  /** A step that has accumulated, and is not over. */
  private unfinished: { readonly arenas: readonly StepArena[]; readonly nonFiniteTensor: number } | undefined;

  constructor(
    private transport: Transport,
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

  /**
   * Goes on in another ring. A step that failed in the one before may be run again: what it has accumulated is not
   * accumulated twice.
   */
  moveTo(transport: Transport): void {
    this.transport = transport;
    this.arenas = this.arenas.map(arena => ({ ...arena, context: { ...arena.context, transport } }));
  }

  /**
   * Ends a step that failed on this rank but not on others.
   *
   * @param applied Whether they applied it: then what this rank had selected was part of the sum, and leaves the
   *   residuals.
   */
  conclude(applied: boolean): void {
    if (applied) this.unfinished?.arenas.forEach(settle);
    this.unfinished = undefined;
  }

  /** What all ranks must agree on for a step: model and options, and the settings of the step. */
  fingerprint(settings: StepSettings): CallFingerprint {
    const parameter = crc32(JSON.stringify(settings), this.plan.hash);
    const elementCount = this.arenas.reduce((sum, { gradients }) => sum + gradients.elementCount, 0);
    const call = { operation: Operation.Exchange, purpose: Purpose.Call } as const;
    return { ...call, elementType: 'float32', reduction: 'mean', elementCount, parameter };
  }

  /** Runs one step. On return the gradients' memory holds the update, unless some rank's gradient was not finite. */
  async run(call: CollectiveCall, step: ExchangeStep): Promise<ExchangeResult> {
    const { transport } = this;
    this.requireOrder(step.density);
    const { compression } = this.plan;
    const masks = compression.kind === 'dgc' && step.density < compression.maskBelow;
    const arenas = this.arenas.map(arena => stepOf(arena, step.density, masks));
    const clock = new StepClock(call, { tensors: arenas.reduce((sum, { tensors }) => sum + tensors.length, 0) });
    const nonFiniteTensor =
      step.nonFiniteTensor === -1
        ? await clock.stage('compress', 'select', () => this.select(arenas, step))
        : step.nonFiniteTensor;
    const sentBefore = transport.traffic.bytesSent;
    const cost = costOf(arenas, transport.worldSize, transport.isLocal);
    // Where everything is sent, there is nothing to round for.
    const way = compression.kind === 'dgc' && step.density < 1 ? (this.plan.way ?? cost.cheaper) : 'dense';
    const means = new Means(transport.worldSize);
    const parts =
      way === 'sparse' && (await clock.stage('encode', 'payload', () => encode(arenas, nonFiniteTensor, means)));
    const nonFinite = await clock.travel(() =>
      parts ? sparseAllReduce(call, parts) : denseAllReduce(call.inBulk(), arenas, nonFiniteTensor),
    );
    const result = { bytesSent: transport.traffic.bytesSent - sentBefore, denseBytes: cost.denseBytes, way } as const;
    const finish = () => {
      if (nonFinite !== undefined) return nonFinite;
      if (way === 'dense') means.takeAll(arenas);
      return means.overflow ?? this.applyMomentum(arenas, step);
    };
    const overflow = await clock.stage('decode', 'average', finish);
    this.unfinished = undefined;
    if (overflow !== undefined) return { ...result, timesMs: clock.timesMs, nonFinite: overflow };
    await clock.stage('compress', 'settle', () => arenas.forEach(settle));
    return { ...result, timesMs: clock.timesMs };
  }

  /**
   * In a step that sends everything the momentum is that of the average, the same on all ranks; in others each rank has
   * its own. The former may become the latter, but not the other way round.
   */
  private requireOrder(density: number): void {
    if (density === 1 && this.hasSentSparsely) {
      const words =
        'A step that sends everything cannot follow one that does not, as the momenta of the ranks differ by then. Does a dense warm-up begin anew?';
      throw new GradringError('ERR_INVALID_ARGUMENT', words);
    }
    this.hasSentSparsely ||= density < 1;
  }

  /** {@link compress}; of a step that failed before, only selects again. Returns what `compress` does. */
  private async select(arenas: readonly StepArena[], step: ExchangeStep): Promise<number> {
    const before = this.unfinished;
    if (before === undefined) {
      const nonFiniteTensor = await this.compress(arenas, step);
      this.unfinished = { arenas, nonFiniteTensor };
      return nonFiniteTensor;
    }
    const gradientScale = this.gradientScale(step);
    for (const [i, { context, tensors }] of arenas.entries()) {
      if (i > 0) await setImmediate();
      for (const tensor of tensors) {
        const { compressor, way, count, gradient, residual, indices, values } = tensor;
        if (way === 'largest') tensor.largest = compressor.selectAgain({ count, indices, values });
        else if (way === 'whole, with error feedback') context.kernels.copy(residual, values, count);
        else if (gradientScale !== 1) context.kernels.scale('float32', gradient, gradientScale, count);
      }
    }
    this.unfinished = { ...before, arenas };
    return before.nonFiniteTensor;
  }

  private gradientScale({ sumOfSquares }: ExchangeStep): number {
    const { compression } = this.plan;
    const clipNorm = compression.kind === 'dgc' ? compression.clipNorm : undefined;
    return clipFactor({ sumOfSquares, clipNorm, worldSize: this.transport.worldSize });
  }

  /**
   * Accumulates the gradients, clipped, and leaves what is to be sent of each tensor in its `values`. Returns the
   * number of a tensor whose accumulated gradient has overflowed, or −1. (The largest are selected, so an infinite one
   * is among them.)
   */
  private async compress(arenas: readonly StepArena[], step: ExchangeStep): Promise<number> {
    const { nesterov } = this.plan;
    const { momentumFactor } = step;
    const gradientScale = this.gradientScale(step);
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
        forgetOwn(kernels, tensor);
      }
    }
    return overflowed;
  }

  /** Applies the momentum of the tensors that travelled whole, which may overflow. */
  private applyMomentum(
    arenas: readonly StepArena[],
    { momentumFactor, momentumCorrection = 1 }: ExchangeStep,
  ): NonFinite | undefined {
    if (momentumFactor === 0) return undefined;
    const overflowed: Overflowed[] = [];
    for (const { context, tensors } of arenas) {
      const { kernels } = context;
      for (const tensor of tensors) {
        const { way, gradient, momentum, elementCount } = tensor;
        if (way === 'largest') continue;
        if (momentumCorrection !== 1) kernels.scale('float32', momentum, momentumCorrection, elementCount);
        kernels.applyMomentum(gradient, momentum, elementCount, momentumFactor, this.plan.nesterov);
        if (!Number.isFinite(kernels.sumOfSquares(gradient, elementCount))) overflowed.push({ kernels, tensor });
      }
    }
    return forgetAll(overflowed);
  }
}

/** What must be alike on all ranks in a step. What the caller left out, or is no number, is not compared. */
export function settingsOf(step: ExchangeStep): StepSettings {
  const { epoch, learningRate, density, momentumFactor: momentum, momentumCorrection } = step;
  const settings = { step: step.step, epoch, learningRate, density, momentum, momentumCorrection };
  return Object.fromEntries(
    Object.entries(settings).filter((entry): entry is [string, number] => Number.isFinite(entry[1])),
  );
}

/** Takes what was sent from the residuals. */
function settle({ context, masks, tensors }: StepArena): void {
  const { kernels } = context;
  for (const { way, compressor, count, residual, indices, values } of tensors) {
    if (way === 'largest') compressor.settle(indices, values, count, masks);
    if (way !== 'whole, with error feedback') continue;
    kernels.scale('float32', values, -1, count);
    kernels.reduce('sum', 'float32', residual, values, count);
  }
}

/** This rank's payloads, one an arena, and where the sums are to go. */
function encode(arenas: readonly StepArena[], nonFiniteTensor: number, means: Means): SparsePart[] {
  return arenas.map(({ context, codec, tensors, workspace, bytes }): SparsePart => {
    const { kernels } = context;
    const payload =
      nonFiniteTensor === -1
        ? encodeGradientPayload({ format: codec.format, counts: undefined, streams: codec.encode(tensors) })
        : encodeNonFinite(nonFiniteTensor);
    // The sums may take the place of the gradients: those are encoded, or accumulated, by then.
    const summed = tensors.map(({ elementCount, count, gradient }) => ({ elementCount, count, sum: gradient }));
    const start = workspace + GradientCodec.workspaceBytes;
    const room = { start, bytes: bytes - start };
    const onSummed = (tensor: number, region: Pointer, count: number) =>
      means.take(kernels, tensors[tensor]!, region, count);
    return { kernels, codec, payload, tensors: summed, room, onSummed };
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
    await allReduce(call.inBulk(arena.context), arena.gradients, 'sum');
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
