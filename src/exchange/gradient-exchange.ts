import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import type { CollectiveCall } from '../collectives/collective-call';
import { type NonFinite, sparseAllReduce } from '../collectives/sparse-all-reduce';
import { clipFactor } from '../compression/clip-factor';
import { clipNormsOf, valueFormatOf } from '../compression/dgc-options';
import { GradientCodec } from '../compression/gradient-codec';
import type { TreatmentStep } from '../compression/tensor-treatment';
import type { CompressorTreatment } from '../compression/compressors/compressor-treatment';
import type { CustomCompression } from '../compression/compressors/custom-compression';
import { PLAIN } from '../compression/compressors/compressor';
import { compressorOf } from '../compression/compressors/compressor-of';
import { instantiateKernels } from '../kernels/wasm-kernels';
import type { Transport } from '../transport/transport';
import { type CallFingerprint, Operation, Purpose } from '../wire/frame';
import type { StepSettings } from '../wire/rank-status';
import { Means } from './means';
import { CompressorRounds } from './compressor-rounds';
import type { ExchangePlan, ExchangeResult, ExchangeStep, Travel } from './messages';
import { type Arena, type StepArena, stepOf } from './step-arena';
import { StepClock } from './step-clock';
import { localLinks, measureLinks } from './link-cost';
import { costOf } from './step-cost';
import { denseAllReduce, encodeParts, findNonFinite, partOf } from './travel';

/**
 * The steps of one wrapped optimizer, on the comm thread: local gradients in, the same mean update on every rank out.
 *
 * Each tensor has its treatment ({@link TensorTreatment}), which says what of it is sent. The entries of all tensors
 * travel together: as a sparse all-gather, whose cost grows with the ranks, or by the dense ring, whose cost does not,
 * or mixed. Each step takes the cheapest. A sparse all-gather has one frame for each arena and rank; the dense ring
 * runs once for each arena.
 */
export class GradientExchange {
  private arenas: readonly Arena[];
  private readonly rounds = new CompressorRounds();
  /** A step that has accumulated, and is not over. */
  private unfinished: { readonly arenas: readonly StepArena[]; readonly nonFiniteTensor: number } | undefined;

  constructor(
    private transport: Transport,
    private readonly plan: ExchangePlan,
  ) {
    const { compression } = plan;
    const format = valueFormatOf(compression);
    const large = plan.arenas.flatMap(({ tensors }) => tensors.filter(({ dense }) => !dense).map(({ shape }) => shape));
    const compressor = compression.kind === 'custom' ? compressorOf(compression, large) : undefined;
    let number = 0;
    this.arenas = plan.arenas.map((arena): Arena => {
      const { memory, workspace } = arena;
      const kernels = instantiateKernels(memory);
      const tensors = arena.tensors.map(tensor => {
        const custom = compressor && {
          ...tensor,
          memory,
          compressor: tensor.dense ? (compressor.small ?? PLAIN) : compressor,
        };
        return { ...tensor, number: number++, kernels, workspace, custom };
      });
      const context = { transport, kernels, memory, scratch: workspace };
      const codec = new GradientCodec(kernels, memory, format, workspace);
      return { ...arena, tensors, context, codec, compression };
    });
  }

  /**
   * Goes on in another ring. A step that failed in the ring before may be run again: what it has accumulated is not
   * accumulated twice.
   */
  moveTo(transport: Transport): void {
    this.transport = transport;
    this.arenas = this.arenas.map(arena => ({ ...arena, context: { ...arena.context, transport } }));
  }

  /**
   * Ends a step that failed on this rank but not on others.
   *
   * @param applied Whether they applied it. If so, what this rank had selected was part of the sum, and leaves the
   *   residuals.
   */
  conclude(applied: boolean): void {
    if (applied) settle(this.unfinished?.arenas ?? []);
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
    const { compression } = this.plan;
    const sentBefore = transport.traffic.bytesSent;
    const { arenas, cost, travel, density, links } = await this.choose(call, step);
    const clock = new StepClock(call, { tensors: arenas.reduce((sum, { tensors }) => sum + tensors.length, 0) });
    let { nonFiniteTensor } = step;
    if (nonFiniteTensor === -1) {
      const { residualScale } = step;
      nonFiniteTensor = await clock.stage('compress', 'select', () => this.select(arenas, residualScale));
    }
    const means = new Means(transport.worldSize);
    const gathered = travel === 'mixed' ? partOf(arenas, 'others') : arenas;
    const reduced = travel === 'mixed' ? partOf(arenas, 'whole') : travel === 'dense' ? arenas : [];
    const parts =
      (travel === 'sparse' || travel === 'mixed') &&
      (await clock.stage('encode', 'payload', () => encodeParts(gathered, nonFiniteTensor, means)));
    const nonFinite = await clock.travel(async () => {
      if (travel === 'custom') return this.average(call.inBulk(), arenas, nonFiniteTensor, step.step ?? 0);
      // A mixed step keeps to one path.
      const path = parts ? call : call.inBulk();
      const found = await (parts ? sparseAllReduce(path, parts) : findNonFinite(path, arenas, nonFiniteTensor));
      if (found === undefined) await denseAllReduce(path, reduced);
      return found;
    });
    const bytesSent = transport.traffic.bytesSent - sentBefore;
    const result = { bytesSent, denseBytes: cost.denseBytes, travel, density, links } as const;
    const overflow = await clock.stage('decode', 'average', () => {
      if (nonFinite !== undefined) return nonFinite;
      means.takeAll(reduced);
      if (travel === 'custom') means.check(arenas);
      const { mean: clipNorm } = clipNormsOf(compression, step.momentumFactor);
      if (clipNorm !== undefined) means.clip(arenas, clipNorm);
      means.applyMomentum(arenas);
      return means.forgetOverflowed();
    });
    this.unfinished = undefined;
    if (overflow !== undefined) return { ...result, timesMs: clock.timesMs, nonFinite: overflow };
    await clock.stage('compress', 'settle', () => settle(arenas));
    return { ...result, timesMs: clock.timesMs };
  }

  /** How the step treats the tensors, and how they travel. All ranks choose the same. */
  private async choose(call: CollectiveCall, step: ExchangeStep) {
    const { transport, plan } = this;
    const { compression } = plan;
    const { density, maySendAll = false } = step;
    const arenasAt = (sent: number) => this.arenas.map(arena => stepOf(arena, this.treatmentStep(step, sent)));
    const arenas = arenasAt(density);
    // Where everything is sent, there is nothing to choose.
    const isSparse = compression.kind === 'dgc' && density < 1;
    const links = step.links ?? (isSparse && !transport.isLocal ? await measureLinks(call) : undefined);
    const cost = costOf(arenas, transport.worldSize, links ?? localLinks(transport.paceNs));
    const travel: Travel =
      compression.kind === 'custom' ? 'custom' : isSparse ? (plan.travel ?? cost.cheapest) : 'dense';
    if (isSparse && maySendAll && travel === 'dense' && plan.travel === undefined) {
      return { arenas: arenasAt(1), cost, travel, density: 1, links };
    }
    return { arenas, cost, travel, density, links };
  }

  /** Has the compressors replace the gradients by means. All that they ask for takes one path, that of bulk. */
  private async average(
    call: CollectiveCall,
    arenas: readonly StepArena[],
    nonFiniteTensor: number,
    step: number,
  ): Promise<NonFinite | undefined> {
    const nonFinite = await findNonFinite(call, arenas, nonFiniteTensor);
    if (nonFinite !== undefined) return nonFinite;
    const tensors = arenas.flatMap(arena => arena.tensors as readonly CompressorTreatment[]);
    const { seed } = this.plan.compression as CustomCompression;
    await this.rounds.run(call, tensors, (tensor, ring) => tensor.average(ring, seed, step));
    return undefined;
  }

  private treatmentStep(step: ExchangeStep, density: number): TreatmentStep {
    const { momentumFactor, momentumScale = 1, sumOfSquares } = step;
    const { compression, nesterov } = this.plan;
    const { rank: clipNorm } = clipNormsOf(compression, momentumFactor);
    const gradientScale = clipFactor({ sumOfSquares, clipNorm, worldSize: this.transport.worldSize });
    const correctsMomentum = compression.kind === 'dgc' && compression.momentumCorrection;
    const masks = compression.kind === 'dgc' && density < compression.maskBelow;
    return { density, gradientScale, momentumFactor, nesterov, momentumScale, correctsMomentum, masks };
  }

  /**
   * Accumulates the gradients, unless this step has done so in a ring before, and selects what is sent. Returns the
   * number of a tensor whose accumulated gradient has overflowed, or −1.
   */
  private async select(arenas: readonly StepArena[], residualScale = 1): Promise<number> {
    const before = this.unfinished;
    let nonFiniteTensor = before?.nonFiniteTensor ?? -1;
    for (const [i, { tensors }] of arenas.entries()) {
      if (i > 0) await setImmediate(); // gigabytes take seconds, and the event loop must turn meanwhile
      for (const tensor of tensors) {
        if (before !== undefined) tensor.selectAgain();
        else {
          if (residualScale !== 1) tensor.scaleResidual(residualScale);
          if (!tensor.compress()) nonFiniteTensor = tensor.number;
        }
      }
    }
    this.unfinished = { arenas, nonFiniteTensor };
    return nonFiniteTensor;
  }
}

/** What must be the same on all ranks in a step. Settings that the caller left out are not compared. */
export function settingsOf(step: ExchangeStep): StepSettings {
  const { epoch, learningRate, density, momentumFactor: momentum, momentumScale } = step;
  const settings = { step: step.step, epoch, learningRate, density, momentum, momentumScale };
  return Object.fromEntries(
    Object.entries(settings).filter((entry): entry is [string, number] => Number.isFinite(entry[1])),
  );
}

/** Takes what was sent from the residuals. */
function settle(arenas: readonly StepArena[]): void {
  for (const { tensors } of arenas) for (const tensor of tensors) tensor.settle();
}
