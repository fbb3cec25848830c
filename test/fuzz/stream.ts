import { type AssembledFrame, FrameAssembly, headOf } from '../../src/transport/data/frame-assembly';
import type { Target } from './fuzz';
import { demand, refusalOf } from './refusal';

/** As the transport's streams are read: a few bytes, or many. */
const READS = [1, 95, 4096, 300_000];

/** What comes by a stream. */
export const streamTarget: Target = {
  name: 'stream',
  seeds: () =>
    [1, 2, 3].map(frames => ({
      bytes: Buffer.concat(
        Array.from({ length: frames }, (_, i) => [
          headOf(Buffer.alloc(64, 1 + i), 50 * i),
          Buffer.alloc(50 * i, 9),
        ]).flat(),
      ),
    })),
  run: bytes => {
    const assembly = new FrameAssembly();
    let frames = 0;
    let come = 0;
    let landed = 0;
    const landing = {
      bytes: 50,
      place: (at: number) => {
        demand(at === landed && at < 50, 'A body lands elsewhere.');
        return new Uint8Array(Math.min(7, 50 - at));
      },
      advance: (at: number, count: number) => {
        demand(count <= Math.min(7, 50 - at), 'More has landed than there was place for.');
        landed += count;
      },
    };
    try {
      assembly.take(landing);
      for (let at = 0; at < bytes.length;) {
        const place = assembly.place();
        demand(place.length > 0, 'There is no place for what comes.');
        const count = Math.min(READS[at % READS.length], place.length, bytes.length - at);
        place.set(bytes.subarray(at, at + count));
        at += count;
        assembly.advance(count);
        for (let next: AssembledFrame | undefined; (next = assembly.take(landing)) !== undefined; frames++) {
          come += next.headerBytes.length + next.bytes;
          demand(come <= bytes.length, 'More was taken than came.');
          demand(next.hasLanded ? landed === next.bytes : next.body.length === next.bytes, 'A body is not whole.');
          landed = 0;
        }
      }
    } catch (error) {
      return { outcome: refusalOf(error) };
    }
    return { outcome: `accepted: ${Math.min(frames, 4)} frames` };
  },
};
