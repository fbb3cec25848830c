import { setImmediate } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { crc32 } from 'node:zlib';
import type { CollectiveCall } from '../collectives/collective-call';
import { clipFactor, type ClipNorms } from '../compression/clipping';
import { type CompressionMethod, methodOf, type RouteName } from '../compression/compression-method';
import type { EntryRoute } from '../compression/dgc-options';
import { GradientCodec } from '../compression/gradient-codec';
import type { TensorPlace, TreatmentStep } from '../compression/tensor-treatment';
import { instantiateKernels } from '../kernels/wasm-kernels';
import type { HostRun } from '../transport/ring-place';
import type { Transport } from '../transport/transport';
import { type CallFingerprint, Operation, Purpose } from '../wire/frame';
import type { StepSettings } from '../wire/rank-status';
import { handOverState, type HostSum, sumOfHost } from './host-sum';
import { type LinkCost, localLinks, measureLinks } from './link-cost';
import { type Arena, Means, type Prices, type StepArena, StepClock, stepOf, sumOf } from './routes/route';
import { type ExchangePlan, type ExchangeResult, type ExchangeStep, largeShapes } from './messages';
import { chooseRoute, expectedLoad, pricesOf, ROUTES } from './routes/choose-route';
import { CodedRoute } from './routes/coded';
import { CompressorRoute } from './routes/compressor';
import { ringBytes } from './routes/ring';
import { ScatterRoute } from './routes/scatter';
import { TensorThreads } from './threads/tensor-threads';

/**
 * The steps of one wrapped optimizer, on the comm thread: local gradients in, the same mean update on every rank out.
 *
 * Each tensor has its treatment ({@link TensorTreatment}), which says what of it is sent. What all tensors send travels
 * together, on one {@link Route}. Each step takes the cheapest of those that its compression allows.
 */
export class GradientExchange {
  private arenas: readonly Arena[];
  private readonly method: CompressionMethod;
  private readonly routes;
  private readonly threads: TensorThreads;
  /** Of all tensors. */
  private readonly elements: number;
  /** Whether some tensors take the dense ring if that is cheaper than their messages. */
  private readonly weighsMessages: boolean;
  /** What links cost if nobody has measured them. */
  private unmeasured: LinkCost;
  /** The choice of the last step. Undefined if that step measured the links. */
  private choice: StepChoice | undefined;
  /** A step that has accumulated, and is not over. */
  private unfinished: Accumulated | undefined;

  constructor(
    private transport: Transport,
    private readonly plan: ExchangePlan,
  ) {
    this.method = methodOf(plan.compression);
    this.unmeasured = localLinks(transport.paceNs);
    this.routes = {
      ...ROUTES,
      coded: new CodedRoute(this.method.seed),
      custom: new CompressorRoute(this.method.seed),
      scatter: new ScatterRoute(this.method.format),
    };
    this.elements = plan.arenas.reduce((sum, { gradients }) => sum + gradients.elementCount, 0);
    const large = largeShapes(plan.arenas);
    const compressorFor = this.method.compressors(large);
    const codes = this.method.codes(large);
    this.threads = new TensorThreads(plan);
    let number = 0;
    this.arenas = plan.arenas.map((arena, index): Arena => {
      const { memory, workspace } = arena;
      const kernels = instantiateKernels(memory);
      const tensors = arena.tensors.map(tensor => {
        const compressor = compressorFor?.(tensor.isWhole);
        const sent = new Float32Array(compressor?.errorFeedback ? tensor.elementCount : 0);
        const custom = compressor && { ...tensor, memory, compressor, sent };
        const coded = codes && { codes, shape: tensor.shape, memory };
        return { ...tensor, number: number++, kernels, workspace, custom, coded };
      });
      const context = { transport, kernels, memory, scratch: workspace };
      const codec = new GradientCodec(kernels, memory, this.method.format, workspace);
      return { ...arena, index, tensors, context, codec, method: this.method };
    });
    const weighs = (tensor: TensorPlace) => tensor.coded !== undefined || tensor.custom?.compressor.messageBits !== undefined; // prettier-ignore
    this.weighsMessages = this.arenas.some(({ tensors }) => tensors.some(weighs));
  }

  /**
   * Goes on in another ring. A step that failed in the ring before may be run again: what it has accumulated is not
   * accumulated twice.
   */
  moveTo(transport: Transport): void {
    this.transport = transport;
    this.choice = undefined;
    this.unmeasured = localLinks(transport.paceNs);
    this.arenas = this.arenas.map(arena => ({ ...arena, context: { ...arena.context, transport } }));
  }

  /**
   * Ends a step that failed on this rank but not on others.
   *
   * @param applied Whether they applied it. If so, what this rank had selected was part of the sum, and leaves the
   *   residuals.
   */
  conclude(applied: boolean): void {
    if (applied) this.settle(this.unfinished?.arenas ?? []);
    this.unfinished = undefined;
  }

  /** Frees what belongs to this exchange alone. */
  close(): void {
    this.threads.close();
  }

  /** What all ranks must agree on for a step: model and options, and the settings of the step. */
  fingerprint(settings: StepSettings): CallFingerprint {
    const parameter = crc32(JSON.stringify(settings), this.plan.hash);
    const call = { operation: Operation.Exchange, purpose: Purpose.Call } as const;
    return { ...call, elementType: 'float32', reduction: 'mean', elementCount: this.elements, parameter };
  }

  /** Runs one step. On return the gradients' memory holds the update, unless some rank's gradient was not finite. */
  async run(call: CollectiveCall, step: ExchangeStep): Promise<ExchangeResult> {
    const tensors = this.arenas.reduce((sum, each) => sum + each.tensors.length, 0);
    const clock = new StepClock(call, { tensors });
    const stopClock = call.observer.listen(clock);
    try {
      return await this.runTimed(call, step, clock);
    } finally {
      stopClock();
    }
  }

  private async runTimed(call: CollectiveCall, step: ExchangeStep, clock: StepClock): Promise<ExchangeResult> {
    const { transport } = this;
    const sent = () => call.observer.read('bytesSent');
    const before = sent();
    // One path for all frames of a step: they show in which call a neighbour is.
    const path = this.method.perHost && step.density < 1 ? call.inBulk() : call;
    const choice = await this.choose(path, step);
    const { route, density, links, denseBytes, prices, clipNorms } = choice;
    const chosen = sent();
    const sumsHost = this.method.perHost && density < 1;
    const ofHost = sumsHost ? await clock.travel(() => sumOfHost(path, this.arenas, this.ownRun)) : undefined;
    const arenas = this.arenas.map(arena => stepOf(arena, this.treatmentStep(step, choice, ofHost)));
    if (sumsHost) await clock.travel(() => handOverState(path, arenas, this.ownRun));
    const inHost = sent() - chosen;
    const { residualScale, step: number = 0, notices = 0 } = step;
    const known = step.nonFiniteTensor ?? ofHost?.nonFiniteTensor;
    const select = () => this.select(arenas, { residualScale, known, isZero: ofHost?.hasSum === false });
    const nonFiniteTensor = await clock.stage('compress', 'select', select);
    const means = new Means(transport.worldSize);
    const routed = {
      ...{ call: path, arenas, nonFiniteTensor, notices, means, workers: this.threads, clock, number, prices },
      sendsCounts: sumsHost,
    };
    const { nonFinite, notices: agreed } = await this.routes[route].carry(routed);
    const bytesSent = sent() - before - inHost;
    const result = { bytesSent, denseBytes, route, density, links, notices: agreed } as const;
    const overflow = clock.stage('decode', 'average', () => {
      if (nonFinite !== undefined) return nonFinite;
      if (clipNorms.mean !== undefined) means.clip(arenas, clipNorms.mean);
      means.applyMomentum(arenas);
      return means.forgetOverflowed();
    });
    this.unfinished = undefined;
    if (overflow !== undefined) return { ...result, timesMs: clock.timesMs, nonFinite: overflow };
    clock.stage('compress', 'settle', () => this.settle(arenas));
    return { ...result, timesMs: clock.timesMs };
  }

  /**
   * Chooses how to take the step. If nothing has changed since the last step, this is the same choice. All ranks choose
   * alike.
   */
  private async choose(call: CollectiveCall, step: ExchangeStep): Promise<StepChoice> {
    const { density: asked, maySendAll = false, momentumFactor } = step;
    const input = { density: asked, maySendAll, momentumFactor, links: step.links };
    if (this.choice !== undefined && isDeepStrictEqual(this.choice.input, input)) return this.choice;
    const { method, transport, plan } = this;
    const allowed = method.routes(asked);
    const mayChoose = allowed.length > 1;
    const isMeasured = step.links === undefined && (mayChoose || this.weighsMessages) && !transport.isLocal;
    const links = isMeasured ? await measureLinks(call) : step.links;
    const { worldSize, hostRuns } = transport;
    const senders = method.perHost ? hostRuns.length : worldSize;
    const prices = { ...pricesOf(worldSize, links ?? this.unmeasured), senders };
    const clipNorms = method.clipNorms(momentumFactor);
    const among = allowed as readonly EntryRoute[]; // there is no choice between others
    const route = mayChoose ? (plan.route ?? this.cheapest(step, clipNorms, prices, among)) : allowed[0]!;
    const sendsAll = mayChoose && maySendAll && route === 'dense' && plan.route === undefined;
    const density = sendsAll ? 1 : asked;
    const denseBytes = Math.ceil(ringBytes(this.elements, worldSize));
    const choice = { input, links, prices, route, density, clipNorms, denseBytes };
    this.choice = isMeasured ? undefined : choice; // the next step is given what was measured
    return choice;
  }

  private cheapest(
    step: ExchangeStep,
    clipNorms: ClipNorms,
    prices: Prices,
    allowed: readonly EntryRoute[],
  ): EntryRoute {
    const treated = this.treatmentStep(step, { density: step.density, clipNorms }, undefined);
    const arenas = this.arenas.map(arena => stepOf(arena, treated));
    const load = expectedLoad(
      arenas.flatMap(({ tensors }) => tensors),
      this.method.format,
      arenas.length,
    );
    return chooseRoute(load, prices, allowed);
  }

  /** The ranks of this host beside this one, and itself. */
  private get ownRun(): HostRun {
    const { rank, hostRuns } = this.transport;
    return hostRuns.find(({ last }) => rank <= last)!;
  }

  private treatmentStep(
    step: ExchangeStep,
    { density, clipNorms }: Pick<StepChoice, 'density' | 'clipNorms'>,
    ofHost: HostSum | undefined,
  ): TreatmentStep {
    const { momentumFactor, momentumScale = 1 } = step;
    const { method, plan, transport } = this;
    const { sumOfSquares } = ofHost ?? step;
    const peers = ofHost === undefined ? transport.worldSize : peersOf(transport);
    const gradientScale = clipFactor({ sumOfSquares, clipNorm: clipNorms.rank, worldSize: peers });
    const [correctsMomentum, masks] = [method.correctsMomentum, method.masksAt(density)];
    return { density, gradientScale, momentumFactor, nesterov: plan.nesterov, momentumScale, correctsMomentum, masks };
  }

  /**
   * Accumulates the gradients, unless this step has done so in a ring before, and selects what is sent. Returns the
   * number of a tensor whose gradient, or accumulated gradient, is not finite.
   *
   * @param known The number of a tensor whose gradient is not finite, if there is one. Then nothing is accumulated.
   * @param isZero Whether gradients and state are zero, because another rank of the host has added them to its own.
   */
  private async select(
    arenas: readonly StepArena[],
    {
      residualScale = 1,
      known,
      isZero,
    }: {
      readonly residualScale: number | undefined;
      readonly known: number | undefined;
      readonly isZero: boolean;
    },
  ): Promise<number | undefined> {
    const before = this.unfinished;
    const knownBefore = before?.nonFiniteTensor ?? known;
    let nonFiniteTensor = knownBefore;
    for (const [i, arena] of arenas.entries()) {
      if (i > 0) await setImmediate(); // gigabytes take seconds, and the event loop must turn meanwhile
      const { tensors } = arena;
      if (before === undefined && residualScale !== 1) for (const each of tensors) each.scaleResidual(residualScale);
      if (isZero) for (const each of tensors) each.compressNothing();
      else if (knownBefore !== undefined) continue;
      else if (before !== undefined) for (const each of tensors) each.selectAgain();
      else nonFiniteTensor = this.threads.compress(arena) ?? nonFiniteTensor;
    }
    this.unfinished = { arenas, nonFiniteTensor };
    return nonFiniteTensor;
  }

  /** Takes what was sent from the residuals, and puts there what was taken back. */
  private settle(arenas: readonly StepArena[]): void {
    for (const arena of arenas) {
      const { kept, memory } = arena;
      this.threads.settle(arena);
      for (const { tensor, start, indices, values } of kept) {
        const residual = new Float32Array(memory.buffer, tensor.residual, tensor.elementCount).subarray(start);
        for (let i = 0; i < indices.length; i++) residual[indices[i]!]! += values[i]!;
      }
    }
  }
}

/**
 * How many hosts of one size would have a mean of the same variance, if the gradients are independent:
 * 1 ÷ Σ (ranks of the host ÷ N)².
 */
function peersOf({ hostRuns, worldSize }: Transport): number {
  return 1 / sumOf(hostRuns, ({ first, last }) => ((last - first + 1) / worldSize) ** 2);
}

/** How a step is taken. */
interface StepChoice {
  /** Everything that the choice depends on, as long as the ring stays the same. */
  readonly input: Required<Pick<ExchangeStep, 'density' | 'maySendAll' | 'momentumFactor'>> &
    Pick<ExchangeStep, 'links'>;
  /** What the links cost, if that was measured in this step or before. */
  readonly links: LinkCost | undefined;
  readonly prices: Prices;
  readonly route: RouteName;
  readonly density: number;
  readonly clipNorms: ClipNorms;
  /** What the dense ring would send. */
  readonly denseBytes: number;
}

/** A step that has accumulated. */
interface Accumulated {
  readonly arenas: readonly StepArena[];
  readonly nonFiniteTensor: number | undefined;
}

/** What must be the same on all ranks in a step. Settings that the caller left out are not compared. */
export function settingsOf(step: ExchangeStep): StepSettings {
  const { epoch, learningRate, density, momentumFactor: momentum, momentumScale } = step;
  const settings = { step: step.step, epoch, learningRate, density, momentum, momentumScale };
  return Object.fromEntries(
    Object.entries(settings).filter((entry): entry is [string, number] => Number.isFinite(entry[1])),
  );
}
