import { GradringError } from '../errors';
import type { Kernels, Pointer } from '../kernels/kernels';
import type { DataFrame, Transport } from '../transport/transport';
import { type CallFingerprint, checksumOf, describeCall, FrameKind, Operation, protocolError } from '../wire/frame';

/** What the collectives of one rank work with. */
export interface CollectiveContext {
  readonly transport: Transport;
  readonly kernels: Kernels;
  /** All pointers point into this memory. */
  readonly memory: WebAssembly.Memory;
  /** {@link SEGMENT_BYTES} of 16-byte aligned scratch, where received bytes meet the kernels. */
  readonly scratch: Pointer;
}

/** Large arrays travel in segments of at most this: small enough for the cache, large enough to hide the cost of a frame. */
export const SEGMENT_BYTES = 256 * 1024;

/**
 * One collective under way: numbers and labels its frames, and checks that what comes from the left belongs to the same
 * call. (Links keep order, so a frame that does not belong shows that ranks called different things.)
 */
export class CollectiveCall {
  private readonly transport: Transport;

  constructor(
    readonly context: CollectiveContext,
    /** Number of this call, the same on all ranks. */
    readonly sequence: number,
    readonly fingerprint: CallFingerprint,
  ) {
    this.transport = context.transport;
  }

  /** The same call over another memory: its frames belong to the same stream. */
  over(context: CollectiveContext): CollectiveCall {
    return new CollectiveCall(context, this.sequence, this.fingerprint);
  }

  get rank(): number {
    return this.transport.rank;
  }

  get worldSize(): number {
    return this.transport.worldSize;
  }

  /** The rank `distance` places to the left. */
  leftBy(distance: number): number {
    return (((this.rank - distance) % this.worldSize) + this.worldSize) % this.worldSize;
  }

  /** Sends a body of this rank's to the right. It must not be written to any more. */
  send(part: number, body: Uint8Array, checksum: 'checksum' | 'no checksum' = 'no checksum'): Promise<void> {
    const header = {
      kind: FrameKind.Data,
      ...this.fingerprint,
      origin: this.rank,
      sequence: this.sequence,
      part,
      checksum: checksum === 'checksum' ? checksumOf(body) : 0,
    } as const;
    return this.transport.send(header, body);
  }

  /** Sends a received frame on, byte for byte. */
  forward(frame: DataFrame): Promise<void> {
    return this.transport.forward(frame);
  }

  /**
   * The next frame from the left, which must be that part of that rank's body.
   *
   * @throws GradringError `ERR_COLLECTIVE_MISMATCH` or `ERR_MODEL_MISMATCH` if the left neighbour is in another call,
   *   `ERR_PROTOCOL` if the frame makes no sense.
   */
  async receive(origin: number, part: number): Promise<DataFrame> {
    const frame = await this.transport.receive();
    const { header, body } = frame;
    const mine = this.fingerprint;
    const keys = ['operation', 'elementType', 'reduction', 'elementCount', 'parameter'] as const;
    if (header.sequence !== this.sequence || keys.some(key => header[key] !== mine[key])) throw this.mismatch(frame);
    if (header.origin !== origin || header.part !== part) {
      throw protocolError(
        `is part ${header.part} of rank ${header.origin} where part ${part} of rank ${origin} is due`,
        {
          rank: this.leftBy(1),
        },
      );
    }
    if (header.checksum !== 0 && checksumOf(body) !== header.checksum) {
      throw protocolError(`of rank ${origin} was damaged on its way: its checksum does not fit`, { rank: origin });
    }
    return frame;
  }

  private mismatch({ header }: DataFrame): GradringError {
    const mine = describeCall(this.fingerprint);
    const theirs = describeCall(header);
    const who = `rank ${header.origin} called ${theirs} as its collective ${header.sequence}, rank ${this.rank} called ${mine} as its collective ${this.sequence}`;
    const isModel =
      header.operation === Operation.Exchange &&
      this.fingerprint.operation === Operation.Exchange &&
      header.sequence === this.sequence;
    return isModel
      ? new GradringError(
          'ERR_MODEL_MISMATCH',
          `Ranks train different models, or with other options or at another epoch: ${who}.`,
          { rank: header.origin },
        )
      : new GradringError('ERR_COLLECTIVE_MISMATCH', `Ranks called different collectives: ${who}.`, {
          rank: header.origin,
        });
  }
}
