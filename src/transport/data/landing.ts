import { copyBytes } from '../../memory/copy-bytes';

/** Where the body of a frame goes while it comes, piece by piece, instead of to memory of its own. */
export interface Landing {
  /** Of the whole body. */
  readonly bytes: number;
  /** Where the next bytes go when so many have landed: at most the rest of them, and at least one. */
  place(landed: number): Uint8Array;
  /** So many more than `landed` are there. */
  advance(landed: number, count: number): void;
}

/** Has a body land where it is to stay. */
export function copiedInto(target: Uint8Array): Landing {
  return { bytes: target.length, place: landed => target.subarray(landed), advance: () => undefined };
}

/** Has a whole body land that came to memory of its own. */
export function land(landing: Landing, body: Uint8Array): void {
  for (let landed = 0; landed < body.length;) {
    const place = landing.place(landed);
    const count = Math.min(place.length, body.length - landed);
    copyBytes(place, body.subarray(landed, landed + count));
    landing.advance(landed, count);
    landed += count;
  }
}
