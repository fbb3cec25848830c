/** Consecutive elements of an array. */
export interface Range {
  readonly start: number;
  readonly count: number;
}

/** How many segments of each chunk go round the ring together. */
export const BLOCK_SEGMENTS = 4;

/** The most bytes in a segment. Shorter ones would keep more links busy, but each frame takes some time. */
export const SEGMENT_BYTES = 1024 * 1024;

/** How an array is cut for the ring: into one chunk per rank, and each chunk into the same number of segments. */
export class Chunks {
  /**
   * Segments of each chunk: a multiple of {@link BLOCK_SEGMENTS}, or fewer than that. All chunks have equally many, so
   * that all ranks send equally many frames. Some may be empty.
   */
  readonly segmentCount: number;

  /** @param smallSegmentBytes Roughly the length of the segments if the array is not large. */
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

  /** Chunk c begins at element ⌊c·n/N⌋. So sizes differ by at most one. */
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
