import type { Kernels, Pointer } from '../kernels/kernels';
import { type BitReader, malformed } from './bit-stream';

/** Symbols that are not read yet. */
interface Waiting {
  readonly symbols: Pointer;
  readonly count: number;
  readonly parameter: number;
  readonly reader: BitReader;
}

/**
 * Reads the Rice codes of a block's indices and of its values at the same time, if it has both. This takes little more
 * time than one of them.
 */
export class RicePair {
  private waiting: Waiting | undefined;

  constructor(private readonly kernels: Kernels) {}

  /**
   * Reads the next symbols of the stream, together with those of another stream, or at {@link finish}. Until then the
   * reader must not be used.
   *
   * @throws ERR_PROTOCOL if either stream ends first.
   */
  read(symbols: Pointer, count: number, parameter: number, reader: BitReader): void {
    const first = this.waiting;
    const second = { symbols, count, parameter, reader };
    if (first === undefined) {
      this.waiting = second;
      return;
    }
    this.waiting = undefined;
    const ends = this.kernels.riceDecodeBoth(count, streamOf(first), streamOf(second));
    if (ends === undefined) throw malformed('ends early');
    first.reader.advance(ends[0]);
    second.reader.advance(ends[1]);
  }

  /** Reads the symbols of a stream that had no partner. */
  finish(): void {
    if (this.waiting === undefined) return;
    const { symbols, count, parameter, reader } = this.waiting;
    this.waiting = undefined;
    reader.advance(this.kernels.riceDecode(symbols, count, parameter, reader.at, reader.until));
  }
}

function streamOf({ symbols, parameter, reader: { at, until } }: Waiting) {
  return { symbols, parameter, from: at, until };
}
