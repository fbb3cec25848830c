import { crc32 } from 'node:zlib';
import type { Communicator } from '../../communicator/communicator';
import type { ExchangeHandle } from '../../exchange/exchange-handle';

/** The rounding error of a float32 sum, for each value that is added. */
const ROUNDING = 2 ** -22;

/** All elements, if the update of this rank is not bit for bit that of rank 0. A collective. */
export function updatesThatDiffer(communicator: Communicator, update: Float32Array): number {
  const bytes = new Uint8Array(update.buffer, update.byteOffset, update.byteLength);
  const hashes = communicator.allGatherSync(Float64Array.of(crc32(bytes)));
  return hashes[communicator.rank]![0] === hashes[0]![0] ? 0 : update.length;
}

/**
 * The expected update, computed in a simple way: what a rank sent is exactly what it had accumulated minus what it
 * kept, and the update is the mean of that over the ranks.
 */
export class SentReference {
  private readonly accumulated: Float32Array;

  constructor(
    private readonly exchange: ExchangeHandle,
    private readonly momentumFactor: number,
  ) {
    this.accumulated = new Float32Array(exchange.gradient(0).length);
  }

  /** Call it before each step, after its gradient is written. */
  before(): void {
    const [gradient, u, v] = [this.exchange.gradient(0), this.exchange.momentum(0), this.exchange.residual(0)];
    const { fround } = Math;
    const factor = fround(this.momentumFactor);
    for (let i = 0; i < gradient.length; i++) {
      this.accumulated[i] = v[i]! + fround(fround(factor * u[i]!) + gradient[i]!);
    }
  }

  /** How many elements of this rank's update differ from the expected ones. A collective. */
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
      // The dense ring does not add in the order of the ranks.
      if (Math.abs(update[i]! * sent.length - sum) > ROUNDING * magnitudes * sent.length) wrong++;
    }
    return wrong;
  }
}
