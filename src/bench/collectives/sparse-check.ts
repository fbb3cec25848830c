import { crc32 } from 'node:zlib';
import type { Communicator } from '../../communicator/communicator';
import type { ExchangeHandle } from '../../exchange/exchange-handle';

/** Rounding of float32 sums, for each value that is added. */
const ROUNDING = 2 ** -22;

/** All elements, if this rank's update is not, to the bit, that of rank 0. A collective. */
export function updatesThatDiffer(communicator: Communicator, update: Float32Array): number {
  const bytes = new Uint8Array(update.buffer, update.byteOffset, update.byteLength);
  const hashes = communicator.allGatherSync(Float64Array.of(crc32(bytes)));
  return hashes[communicator.rank]![0] === hashes[0]![0] ? 0 : update.length;
}

/**
 * What an update must be, computed plainly: what a rank sent is what it had accumulated less what it kept, exactly, and
 * the update is the mean of that over the ranks.
 */
export class SentReference {
  private readonly accumulated: Float32Array;

  constructor(
    private readonly exchange: ExchangeHandle,
    private readonly momentumFactor: number,
  ) {
    this.accumulated = new Float32Array(exchange.gradient(0).length);
  }

  /** To be called before each step, when its gradient is there. */
  before(): void {
    const [gradient, u, v] = [this.exchange.gradient(0), this.exchange.momentum(0), this.exchange.residual(0)];
    const { fround } = Math;
    const factor = fround(this.momentumFactor);
    for (let i = 0; i < gradient.length; i++) {
      this.accumulated[i] = v[i]! + fround(fround(factor * u[i]!) + gradient[i]!);
    }
  }

  /** Elements of this rank's update that are not what they must be. A collective. */
  countWrong(communicator: Communicator): number {
    const update = this.exchange.gradient(0);
    const kept = this.exchange.residual(0);
    const sent = communicator.allGatherSync(this.accumulated.map((value, i) => value - kept[i]!));
    let wrong = 0;
    for (let i = 0; i < update.length; i++) {
      let sum = 0;
      let magnitudes = 0;
      for (const of of sent) {
        sum += of[i]!;
        magnitudes += Math.abs(of[i]!);
      }
      // The dense ring adds in another order than the ranks'.
      if (Math.abs(update[i]! * sent.length - sum) > ROUNDING * magnitudes * sent.length) wrong++;
    }
    return wrong;
  }
}
