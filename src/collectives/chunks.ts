/** A run of elements. */
export interface Range {
  readonly start: number;
  readonly count: number;
}

/** So many segments of each chunk go round together. */
export const BLOCK_SEGMENTS = 4;

/** A segment has at most so many bytes. Shorter ones would keep more links busy, but each frame costs some time. */
export const SEGMENT_BYTES = 1024 * 1024;

/** How an array is cut for the ring: a chunk a rank, and each chunk into the same number of segments. */
export class Chunks {
  /**
   * Segments of each chunk, a multiple of {@link BLOCK_SEGMENTS} or fewer. All chunks have as many, so that every rank
   * sends as many frames; some may be empty.
   */
  readonly segmentCount: number;

  /** @param smallSegmentBytes The segments' length, about, where the array is not large. */
  constructor(
    private readonly elementCount: number,
    private readonly chunkCount: number,
    elementBytes: number,
    smallSegmentBytes = SEGMENT_BYTES,
  ) {
    const largestChunk = Math.ceil(elementCount / chunkCount);
    const bytes = largestChunk * elementBytes;
    const segmentBytes = Math.min(SEGMENT_BYTES, Math.max(smallSegmentBytes, bytes / BLOCK_SEGMENTS));
    const segments = Math.max(1, Math.ceil(bytes / segmentBytes));
    this.segmentCount = segments < BLOCK_SEGMENTS ? segments : Math.ceil(segments / BLOCK_SEGMENTS) * BLOCK_SEGMENTS;
  }

  /** Chunk c is the elements from ⌊c·n/N⌋ on: sizes differ by one at most. */
  chunk(chunk: number): Range {
    return part({ start: 0, count: this.elementCount }, chunk, this.chunkCount);
  }

  segment(chunk: number, segment: number): Range {
    return part(this.chunk(chunk), segment, this.segmentCount);
  }
}

/** The i-th of `parts` nearly equal parts of a range. */
export function part({ start, count }: Range, i: number, parts: number): Range {
  const from = Math.floor((count * i) / parts);
  return { start: start + from, count: Math.floor((count * (i + 1)) / parts) - from };
}
