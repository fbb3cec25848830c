import { tellFailure } from '../environment/launcher-pipe';
import { inRun } from '../errors';
import type { Observer } from '../observer';
import type { ConnectOptions } from '../rendezvous/connect-options';
import { SoloTransport, type Transport } from '../transport/transport';
import type { CommandRunner } from './command-runner';
import { formRing } from './form-ring';
import type { Request, RingCommand, RingPosition } from './thread-protocol';

/** The rings that this rank is in. There are two kinds: {@link StaticMembership}, {@link ElasticMembership}. */
export abstract class Membership {
  /** The current ring, or the last one. A ring of one, until the first has formed. */
  transport: Transport;

  constructor(
    protected readonly options: ConnectOptions,
    protected readonly observer: Observer,
    protected readonly runner: CommandRunner,
  ) {
    this.transport = new SoloTransport(observer);
  }

  /** Joins the first ring. Settles with this rank's position in it. */
  abstract join(): Promise<RingPosition>;
  /** Carries out a request in the ring that it was meant for, or throws the reason why it cannot. One at a time. */
  abstract carryOut(request: Request): Promise<unknown>;

  /** A request has arrived. It is carried out after the earlier ones. */
  onRequest(): void {
    // Nothing waits for it.
  }
}

/** The one ring of a static run. After it has failed, there is no other. */
export class StaticMembership extends Membership {
  async join(): Promise<RingPosition> {
    const { transport, generation, failed } = await formRing(this.options, this.observer);
    void failed.then(error => tellFailure(inRun(error, this.options.ranksOfRun)));
    this.transport = transport;
    this.runner.moveTo(transport);
    return positionIn(transport, generation);
  }

  carryOut({ name, input }: Request): Promise<unknown> {
    return this.runner.run(name as RingCommand, input as never);
  }
}

/** This rank's position in a ring. */
export function positionIn({ rank, worldSize, ranksHere }: Transport, generation: number): RingPosition {
  return { rank, worldSize, ranksHere, generation };
}
