import type { KernelMemory } from '../kernel-memory';
import type { Kernels, Pointer } from '../kernels/kernels';
import type { Observer } from '../observer';
import { releaseMemory } from '../memory/buffers';
import { land, type Landing } from '../transport/data/landing';
import { opposite, type Side } from '../transport/ring-place';
import { type DataFrame, type DataPath, frameArguments, type Transport } from '../transport/transport';
import { type CallFingerprint, checksumOf, type DataHeader, FrameKind, Operation, protocolError } from '../wire/frame';
import { GradringError } from '../errors';
import { describeCall } from '../wire/describe-call';

/** What the collectives of one rank work with. */
export interface CollectiveContext {
  readonly transport: Transport;
  readonly kernels: Kernels;
  /** All pointers point into this memory. */
  readonly memory: KernelMemory;
  /** {@link SCRATCH_BYTES} of 16-byte aligned scratch, where the kernels find received bytes. */
  readonly scratch: Pointer;
}

/** When the collective received its last frame so far, as `performance.now()` has it. */
export interface FrameTimes {
  last?: number;
}

/** The size of scratch. It holds the largest array that is gathered instead of reduced, and a piece of any other. */
export const SCRATCH_BYTES = 256 * 1024;

/**
 * One collective under way. Numbers and labels its frames, and checks that received frames belong to the same call.
 * (Links keep order, so a frame of another call shows that the ranks called different things.)
 */
export class CollectiveCall {
  readonly rank: number;
  readonly worldSize: number;
  readonly observer: Observer;
  private readonly transport: Transport;

  constructor(
    readonly context: CollectiveContext,
    /** Number of this call, the same on all ranks. */
    readonly sequence: number,
    readonly fingerprint: CallFingerprint,
    /** All its frames take this path: {@link Transport.links} or {@link Transport.bulk}, the same on all ranks. */
    private readonly path: DataPath,
    readonly frameTimes: FrameTimes = {},
  ) {
    this.transport = context.transport;
    this.rank = this.transport.rank;
    this.worldSize = this.transport.worldSize;
    this.observer = this.transport.observer;
  }

  /** The same call over another memory. */
  over(context: CollectiveContext): CollectiveCall {
    return new CollectiveCall(context, this.sequence, this.fingerprint, this.path, this.frameTimes);
  }

  /** The same call for dense arrays, perhaps in another memory. */
  inBulk(context = this.context): CollectiveCall {
    return new CollectiveCall(context, this.sequence, this.fingerprint, this.transport.bulk, this.frameTimes);
  }

  /** The rank `distance` places to the left. */
  leftBy(distance: number): number {
    return (((this.rank - distance) % this.worldSize) + this.worldSize) % this.worldSize;
  }

  /**
   * Sends a body. When this settles, its memory is the caller's again.
   *
   * @param options.origin The rank that made the body. Default: this rank.
   */
  send(
    part: number,
    body: Uint8Array,
    { side = 'right', origin = this.rank, checksum = false }: { side?: Side; origin?: number; checksum?: boolean } = {},
  ): Promise<void> {
    const { sequence } = this;
    return this.observer.record('send', { sequence, part, origin, direction: side, bytes: body.length }, () =>
      this.path.send(
        side,
        {
          kind: FrameKind.Data,
          ...this.fingerprint,
          origin,
          sequence,
          part,
          checksum: checksum ? checksumOf(body) : 0,
        },
        body,
      ),
    );
  }

  /** Forwards a received frame, byte for byte. */
  forward(frame: DataFrame, side: Side = 'right'): Promise<void> {
    return this.observer.record('forward', frameArguments(frame, side), () => this.path.forward(side, frame));
  }

  /**
   * Receives the next frame from a neighbour. It must be that part of that rank's body.
   *
   * @throws GradringError `ERR_COLLECTIVE_MISMATCH` or `ERR_MODEL_MISMATCH` if the neighbour is in another call,
   *   `ERR_PROTOCOL` if the frame is not valid.
   */
  async receive(origin: number, part: number, side: Side = 'left', landing?: Landing): Promise<DataFrame> {
    const frame = await this.next(origin, part, side, landing);
    this.frameTimes.last = performance.now();
    return frame;
  }

  /**
   * Like {@link receive}, but the frame's body lands. Nothing else may use the memory of the landing until this
   * settles. A frame that turns out to belong to another call may have landed, too.
   */
  async receiveTo(landing: Landing, origin: number, part: number, side: Side = 'left'): Promise<void> {
    const frame = await this.receive(origin, part, side, landing);
    if (frame.hasLanded) return;
    checkLength(origin, frame.bytes, landing.bytes);
    land(landing, frame.body);
    releaseMemory(frame.body);
  }

  private async next(origin: number, part: number, side: Side, landing?: Landing): Promise<DataFrame> {
    const args = { sequence: this.sequence, part, origin, direction: opposite(side) };
    const frame = await this.observer.record('wait', args, () => this.path.receive(side, this.sequence, landing));
    const { header, body } = frame;
    const mine = this.fingerprint;
    const keys = ['operation', 'purpose', 'elementType', 'reduction', 'elementCount', 'parameter'] as const;
    if (header.sequence !== this.sequence || keys.some(key => header[key] !== mine[key])) {
      throw new CallMismatch(header, this);
    }
    if (header.origin !== origin || header.part !== part) {
      throw protocolError(
        `is part ${header.part} of rank ${header.origin} where part ${part} of rank ${origin} is expected`,
        {
          rank: this.leftBy(side === 'left' ? 1 : -1),
        },
      );
    }
    if (header.checksum !== 0 && checksumOf(body) !== header.checksum) {
      throw protocolError(`of rank ${origin} was damaged on its way: its checksum is wrong`, { rank: origin });
    }
    return frame;
  }
}

/** @throws GradringError `ERR_PROTOCOL`, naming the rank that made the body, if it has another length than expected. */
export function checkLength(origin: number, bytes: number, due: number): void {
  if (bytes !== due)
    throw protocolError(`of rank ${origin} holds ${bytes} bytes where ${due} are expected`, { rank: origin });
}

/** A frame has arrived that belongs to another call than the one that this rank is in. */
export class CallMismatch extends GradringError {
  constructor(
    /** The frame's header. */
    readonly theirs: DataHeader,
    readonly mine: { readonly rank: number; readonly sequence: number; readonly fingerprint: CallFingerprint },
  ) {
    const isStep =
      theirs.operation === Operation.Exchange &&
      mine.fingerprint.operation === Operation.Exchange &&
      theirs.sequence === mine.sequence;
    const words = `Rank ${theirs.origin} is in ${describeCall(theirs)}, but rank ${mine.rank} is in another call, ${describeCall(mine.fingerprint)}.`;
    super(isStep ? 'ERR_MODEL_MISMATCH' : 'ERR_COLLECTIVE_MISMATCH', words, { rank: theirs.origin });
  }
}
