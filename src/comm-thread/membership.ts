import { SoloTransport, type Transport } from '../transport/transport';
import type { Request, RingCommand, RingPosition } from './thread-protocol';
import { tellFailure } from '../environment/launcher-pipe';
import type { ConnectOptions } from '../rendezvous/connect-options';
import type { Observer } from '../observer';
import type { CommandRunner } from './command-runner';
import { formRing } from './form-ring';

/** The rings that this rank is in. There are two kinds: {@link StaticMembership}, {@link ElasticMembership}. */
export interface Membership {
  /** The current ring, or the last one. A ring of one, until the first has formed. */
  readonly transport: Transport;
  /** Joins the first ring. Settles with this rank's position in it. */
  join(): Promise<RingPosition>;
  /** A request has arrived. It is carried out after the earlier ones. */
  onRequest(): void;
  /** Carries out a request in the ring that it was meant for, or throws the reason why it cannot. One at a time. */
  carryOut(request: Request): Promise<unknown>;
}

/** The one ring of a static run. After it has failed, there is no other. */
export class StaticMembership implements Membership {
  transport: Transport;

  constructor(
    private readonly options: ConnectOptions,
    private readonly observer: Observer,
    private readonly runner: CommandRunner,
  ) {
    this.transport = new SoloTransport(observer);
  }

  async join(): Promise<RingPosition> {
    const { transport, generation, failed } = await formRing(this.options, this.observer);
    void failed.then(tellFailure);
    this.transport = transport;
    this.runner.moveTo(transport);
    return { rank: transport.rank, worldSize: transport.worldSize, generation };
  }

  onRequest(): void {
    // Nothing waits for a request.
  }

  carryOut({ name, input }: Request): Promise<unknown> {
    return this.runner.run(name as RingCommand, input as never);
  }
}
