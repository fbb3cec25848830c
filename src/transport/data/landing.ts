import { copyBytes } from '../../memory/buffers';

/** Where the body of a frame goes piece by piece as it arrives, instead of to memory of its own. */
export interface Landing {
  /** Length of the whole body. */
  readonly bytes: number;
  /** Where the next bytes go when `landed` bytes are there. At least one byte, and at most the rest of the body. */
  place(landed: number): Uint8Array;
  /** `count` bytes have landed after the first `landed`. */
  advance(landed: number, count: number): void;
}

/** A landing in the memory where the body stays. */
export function copiedInto(target: Uint8Array): Landing {
  return { bytes: target.length, place: landed => target.subarray(landed), advance: () => undefined };
}

/** Copies to its landing a body that arrived in memory of its own. */
export function land(landing: Landing, body: Uint8Array): void {
  for (let landed = 0; landed < body.length;) {
    const place = landing.place(landed);
    const count = Math.min(place.length, body.length - landed);
    copyBytes(place, body.subarray(landed, landed + count));
    landing.advance(landed, count);
    landed += count;
  }
}
