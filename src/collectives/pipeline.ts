import { deferred } from '../transport/deferred';
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
 * Runs a pipeline: receives frame after frame, and meanwhile sends as far ahead as the window and the lead allow. What
 * has come is always taken, so nobody waits in a circle. As a rank has sent at most {@link FRAMES_AHEAD} frames more
 * than it has received, that many a rank are on their way round the ring at most.
 */
export async function runPipeline({ frameCount, lead, send, receive }: Pipeline): Promise<void> {
  const ahead = Math.min(FRAMES_AHEAD, lead);
  let received = 0;
  let next = deferred();
  const receiveAll = async (): Promise<void> => {
    while (received < frameCount) {
      await receive(received);
      received += 1;
      next.resolve();
    }
  };
  const sendAll = async (): Promise<void> => {
    for (let sent = 0; sent < frameCount; sent++) {
      while (sent >= received + ahead) await (next = deferred()).promise;
      await send(sent);
    }
  };
  await Promise.all([receiveAll(), sendAll()]);
}
