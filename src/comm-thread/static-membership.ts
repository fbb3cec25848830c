import { tellFailure } from '../environment/launcher-pipe';
import type { ConnectOptions } from '../rendezvous/connect-options';
import type { Observer } from '../observer';
import { SoloTransport, type Transport } from '../transport/transport';
import type { CommandRunner } from './command-runner';
import { formRing } from './form-ring';
import type { Membership } from './membership';
import type { Request, RingCommand, RingPosition } from './thread-protocol';

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
