import { FRAMES_AHEAD } from '../transport/transport';

/** A stream of frames through one rank: as many go out on the right as come in from the left. */
export interface Pipeline {
  readonly frameCount: number;
  /** Frame j + lead that goes out is made of frame j that came in; the first `lead` frames are this rank's own. */
  readonly lead: number;
  readonly send: (frame: number) => Promise<unknown>;
  readonly receive: (frame: number) => Promise<void>;
}

/**
 * Runs a pipeline: sends as far ahead as the window and the lead allow, then receives the next, and so on. A rank has
 * sent at most {@link FRAMES_AHEAD} frames more than it has received. So round the whole ring, that many a rank are on
 * their way at most, and where a link has room for more, not all can be full: nobody waits in a circle.
 */
export async function runPipeline({ frameCount, lead, send, receive }: Pipeline): Promise<void> {
  let sent = 0;
  for (let received = 0; received < frameCount; received++) {
    while (sent < Math.min(frameCount, received + FRAMES_AHEAD, received + lead)) await send(sent++);
    await receive(received);
  }
}
