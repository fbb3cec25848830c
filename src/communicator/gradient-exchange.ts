import { crc32 } from 'node:zlib';
import { allGatherBodies } from '../collectives/all-gather';
import type { CollectiveCall, CollectiveContext } from '../collectives/collective-call';
import { allReduce } from '../collectives/dense-ring';
import { type NonFinite, sparseAllReduce } from '../collectives/sparse-all-reduce';
import { clipFactor } from '../compression/clip-factor';
import { sentCount } from '../compression/sparsity-schedule';
import { TensorCompressor } from '../compression/tensor-compressor';
import { encodeGradientPayload, encodeNonFinite, TENSOR_ENTRY_BYTES } from '../wire/gradient-payload';
import { type CallFingerprint, Operation, protocolError } from '../wire/frame';
import type { ExchangedTensor, ExchangePlan, ExchangeResult, ExchangeStep } from './thread-protocol';

/** A tensor with what this step makes of it. */
interface StepTensor extends ExchangedTensor {
  readonly compressor: TensorCompressor;
  /** Whether it travels whole in this step. */
  readonly dense: boolean;
  /** Entries that each rank sends of it. */
  readonly count: number;
}

/**
 * The steps of one wrapped optimizer, on the comm thread: local gradients in, the same mean update on every rank out.
 *
 * Sparse tensors take Deep Gradient Compression's way: clip, accumulate with momentum, select, exchange, mask. Dense ones are
 * averaged first and get their momentum then, once. How the bytes travel is chosen by counting them: as a
 * sparse all-gather, whose cost grows with the ranks, or by the dense ring, whose cost does not.
 */
export class GradientExchange {
  private readonly tensors: readonly (ExchangedTensor & { readonly compressor: TensorCompressor })[];

  constructor(
    private readonly context: CollectiveContext,
    private readonly plan: ExchangePlan,
  ) {
    this.tensors = plan.tensors.map(tensor => ({
      ...tensor,
      compressor: new TensorCompressor(context.kernels, tensor, plan.workspace),
    }));
  }

  /** What all ranks must agree on for a step: model and options, and how much of it is sent. */
  fingerprint({ density, momentumFactor }: ExchangeStep): CallFingerprint {
    const parameter = crc32(new Uint8Array(Float64Array.of(density, momentumFactor).buffer), this.plan.hash);
    const { elementCount } = this.plan.gradients;
    return { operation: Operation.Exchange, elementType: 'float32', reduction: 'mean', elementCount, parameter };
  }

  /** Runs one step. On return the gradients' memory holds the update, unless some rank's gradient was not finite. */
  async run(call: CollectiveCall, step: ExchangeStep): Promise<ExchangeResult> {
    const { transport } = this.context;
    const tensors = this.tensors.map((tensor): StepTensor => {
      const dense = tensor.dense || step.density === 1;
      return { ...tensor, dense, count: dense ? tensor.elementCount : sentCount(tensor.elementCount, step.density) };
    });
    const nonFiniteTensor = step.nonFiniteTensor === -1 ? this.compress(tensors, step) : step.nonFiniteTensor;
    const sentBefore = transport.traffic.bytesSent;
    const cost = costOf(tensors, transport.worldSize);
    const nonFinite =
      cost.sparseBytes < cost.denseBytes
        ? await this.allGatherAndSum(call, tensors, nonFiniteTensor)
        : await this.denseAllReduce(call, tensors, nonFiniteTensor);
    const result = { bytesSent: transport.traffic.bytesSent - sentBefore, denseBytes: cost.denseBytes };
    const overflow = nonFinite ?? this.overflowOfSums(tensors);
    if (overflow !== undefined) return { ...result, nonFinite: overflow };
    this.finish(tensors, step);
    return result;
  }

  /**
   * Leaves the entries to send in the plan's buffers, and the clipped gradients of dense tensors in place. Returns the number of a
   * tensor whose accumulated gradient has overflowed, or −1. (The largest are selected, so an infinite one is among them.)
   */
  private compress(tensors: readonly StepTensor[], step: ExchangeStep): number {
    const { kernels, transport } = this.context;
    const { compression, nesterov } = this.plan;
    const clipNorm = compression.kind === 'dgc' ? compression.clipNorm : undefined;
    const gradientScale = clipFactor({ sumOfSquares: step.sumOfSquares, clipNorm, worldSize: transport.worldSize });
    let overflowed = -1;
    this.eachSparse(tensors, (tensor, indices, values) => {
      const { count } = tensor;
      const { momentumFactor } = step;
      tensor.compressor.compress({ count, momentumFactor, nesterov, gradientScale, indices, values });
      if (kernels.firstNonFinite(values, count) !== -1) overflowed = tensors.indexOf(tensor);
    });
    if (gradientScale !== 1) {
      for (const { dense, gradient, elementCount } of tensors) {
        if (dense) kernels.scale('float32', gradient, gradientScale, elementCount);
      }
    }
    return overflowed;
  }

  /** Finite gradients may add up to infinity. All ranks have the same sums, and so find the same. */
  private overflowOfSums(tensors: readonly StepTensor[]): NonFinite | undefined {
    const { kernels } = this.context;
    const tensor = tensors.findIndex(
      ({ gradient, elementCount }) => !Number.isFinite(kernels.sumOfSquares(gradient, elementCount)),
    );
    return tensor === -1 ? undefined : { rank: undefined, tensor };
  }

  private allGatherAndSum(
    call: CollectiveCall,
    tensors: readonly StepTensor[],
    nonFiniteTensor: number,
  ): Promise<NonFinite | undefined> {
    // The sums may take the place of the gradients: those are encoded, or accumulated, by then.
    const summed = tensors.map(({ elementCount, dense, gradient }) => ({ elementCount, dense, sum: gradient }));
    return sparseAllReduce(call, this.encode(tensors, nonFiniteTensor), summed);
  }

  private encode(tensors: readonly StepTensor[], nonFiniteTensor: number): Uint8Array {
    if (nonFiniteTensor !== -1) return encodeNonFinite(nonFiniteTensor);
    const { buffer } = this.context.memory;
    const { indices, values } = this.plan;
    const dense = tensors.filter(tensor => tensor.dense);
    const denseBytes = new Uint8Array(total(dense) * 4);
    let at = 0;
    for (const { gradient, elementCount } of dense) {
      denseBytes.set(new Uint8Array(buffer, gradient, elementCount * 4), at);
      at += elementCount * 4;
    }
    const pairs = total(tensors) - total(dense);
    return encodeGradientPayload(
      {
        counts: tensors.map(tensor => tensor.count),
        indices: new Uint8Array(buffer, indices, pairs * 4),
        values: new Uint8Array(buffer, values, pairs * 4),
        dense: denseBytes,
      },
      tensors,
    );
  }

  /** The same sum by the dense ring: what is not sent counts as zero. */
  private async denseAllReduce(
    call: CollectiveCall,
    tensors: readonly StepTensor[],
    nonFiniteTensor: number,
  ): Promise<NonFinite | undefined> {
    const nonFinite = await this.agreeOnFinite(call, nonFiniteTensor);
    if (nonFinite !== undefined) return nonFinite;
    const { kernels, memory } = this.context;
    this.eachSparse(tensors, ({ gradient, elementCount, count }, indices, values) => {
      new Float32Array(memory.buffer, gradient, elementCount).fill(0);
      kernels.scatterAdd(gradient, indices, values, count);
    });
    await allReduce(call, this.plan.gradients, 'sum');
    return undefined;
  }

  private async agreeOnFinite(call: CollectiveCall, nonFiniteTensor: number): Promise<NonFinite | undefined> {
    const own = new Uint8Array(4);
    new DataView(own.buffer).setInt32(0, nonFiniteTensor, true);
    for (const [rank, body] of (await allGatherBodies(call, own)).entries()) {
      const tensor = body.length === 4 ? new DataView(body.buffer, body.byteOffset, 4).getInt32(0, true) : NaN;
      if (!(tensor >= -1 && tensor < this.tensors.length))
        throw protocolError(`of rank ${rank} holds no tensor number`);
      if (tensor !== -1) return { rank, tensor };
    }
    return undefined;
  }

  /** Masks what was sent, averages the sums, and applies the momentum of the dense tensors. */
  private finish(tensors: readonly StepTensor[], step: ExchangeStep): void {
    const { kernels, transport } = this.context;
    this.eachSparse(tensors, (tensor, indices) => tensor.compressor.mask(indices, tensor.count));
    if (transport.worldSize > 1) {
      kernels.scale('float32', this.plan.gradients.data, 1 / transport.worldSize, this.plan.gradients.elementCount);
    }
    if (step.momentumFactor === 0) return;
    for (const { dense, gradient, momentum, elementCount } of tensors) {
      if (dense) kernels.applyMomentum(gradient, momentum, elementCount, step.momentumFactor, this.plan.nesterov);
    }
  }

  private eachSparse(
    tensors: readonly StepTensor[],
    visit: (tensor: StepTensor, indices: number, values: number) => void,
  ): void {
    let entry = 0;
    for (const tensor of tensors) {
      if (tensor.dense) continue;
      visit(tensor, this.plan.indices + entry * 4, this.plan.values + entry * 4);
      entry += tensor.count;
    }
  }
}

/** Frame header, payload table and alignment, about. */
const FRAME_OVERHEAD_BYTES = 192;

/**
 * What a rank sends in a step by either way, in bytes. It depends only on what all ranks know, so that all choose alike.
 */
function costOf(tensors: readonly StepTensor[], worldSize: number): { sparseBytes: number; denseBytes: number } {
  const elements = tensors.reduce((sum, tensor) => sum + tensor.elementCount, 0);
  const entryBytes = tensors.reduce((sum, tensor) => sum + tensor.count * (tensor.dense ? 4 : 8), 0);
  const payloadBytes = entryBytes + tensors.length * TENSOR_ENTRY_BYTES + FRAME_OVERHEAD_BYTES;
  return {
    sparseBytes: (worldSize - 1) * payloadBytes,
    denseBytes: Math.ceil((2 * (worldSize - 1) * elements * 4) / worldSize),
  };
}

function total(tensors: readonly StepTensor[]): number {
  return tensors.reduce((sum, tensor) => sum + tensor.count, 0);
}
