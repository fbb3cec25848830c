import type { GradringError } from '../errors';
import { instantiateKernels } from '../kernels/wasm-kernels';
import type { Timeline } from '../timeline/timeline';
import { SoloTransport, type Transport } from '../transport/transport';
import { CommandRunner } from './command-runner';
import type { ConnectOptions } from '../rendezvous/connect-options';
import { ElasticRing } from './elastic-ring';
import type { MembershipCommand, Request, RingCommand, RingPlace } from './thread-protocol';

/** What carries out the commands in an elastic run: a {@link CommandRunner} that goes from ring to ring. */
export class ElasticThread {
  readonly ring: ElasticRing;
  private readonly runner: CommandRunner;
  private transport: Transport;
  private running: Promise<unknown> | undefined;
  private unansweredCount = 0;
  private awaitingRequest: (() => void) | undefined;

  constructor(
    private readonly options: ConnectOptions,
    memory: WebAssembly.Memory,
    scratch: number,
    timeline: Timeline | undefined,
    say: (line: string) => void,
  ) {
    this.transport = new SoloTransport(timeline); // stands in until there is a ring
    const context = { transport: this.transport, kernels: instantiateKernels(memory), memory, scratch };
    this.runner = new CommandRunner(context, options, say);
    this.ring = new ElasticRing(options, timeline, {
      isBusy: () => this.running !== undefined,
      idle: async () => void (await this.running?.catch(() => undefined)),
      asked: () => this.asked(),
      moveTo: transport => {
        this.transport = transport;
        this.runner.moveTo(transport);
      },
      onFailure: error => this.runner.onRingFailure(error),
    });
  }

  /** The first place. A newcomer has none in any ring yet: it joins when the others let it in. */
  async begin(): Promise<RingPlace> {
    const { elastic, rank, worldSize } = this.options;
    return elastic === 'newcomer' ? { rank, worldSize, generation: -1 } : this.ring.join();
  }

  /** A request has come. */
  onAsked(): void {
    this.unansweredCount++;
    this.awaitingRequest?.();
  }

  async carryOut({ name, input, generation }: Request): Promise<unknown> {
    try {
      if (name === 'rejoin' || name === 'askWaiting')
        return await this.ring.run(name satisfies MembershipCommand, input as never, generation);
      this.ring.checkGeneration(name, generation);
      if (name === 'close') await this.ring.leave();
      this.running = this.runner.run(name satisfies RingCommand, input as never);
      return await this.running;
    } finally {
      this.running = undefined;
      this.unansweredCount--;
    }
  }

  /** This thread has crashed. */
  fail(error: GradringError): void {
    void this.transport.fail(error);
  }

  async close(): Promise<void> {
    await this.transport.close();
  }

  private asked(): Promise<void> {
    if (this.unansweredCount > 0) return Promise.resolve();
    return new Promise(resolve => (this.awaitingRequest = resolve));
  }
}
