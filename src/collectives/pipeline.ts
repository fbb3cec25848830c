import { deferred } from '../transport/deferred';
import { FRAMES_AHEAD } from '../transport/transport';

/** A stream of frames through one rank. It sends as many frames to one side as it receives from the other. */
export interface Pipeline {
  readonly frameCount: number;
  /** The rank makes frame j + lead of the received frame j. The first `lead` frames that it sends are its own. */
  readonly lead: number;
  readonly send: (frame: number) => Promise<unknown>;
  readonly receive: (frame: number) => Promise<void>;
}

/**
 * Runs a pipeline: receives frame after frame, and meanwhile sends as far ahead as {@link FRAMES_AHEAD} and the lead
 * allow. Frames that arrive are always taken, so the ranks cannot all wait for each other. A rank has sent at most that
 * many frames more than it has received. So at most that many per rank are in flight.
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
