import { GradringError } from '../errors';
import type { DataHeader } from '../wire/frame';
import type { Message } from './link';

/** A received data frame. */
export interface DataFrame {
  readonly header: DataHeader;
  readonly body: Buffer;
  /** The message as it came, for {@link Transport.forward}. */
  readonly message: Message;
}

/** Bytes handed to and taken from the sockets since the ring formed: headers and bodies, without ZeroMQ's framing. */
export interface TrafficCount {
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

/** What the collectives need of the network: frames go to the right and come from the left. */
export interface Transport {
  readonly rank: number;
  readonly worldSize: number;
  readonly traffic: TrafficCount;
  /** Whether the ring has failed. */
  readonly failed: boolean;
  /** Sends a data frame to the right. Settles when ZeroMQ took it over; the body must not be written to any more. */
  send(header: DataHeader, body?: Uint8Array): Promise<void>;
  /** Sends a received frame on to the right, byte for byte. */
  forward(frame: DataFrame): Promise<void>;
  /** The next data frame from the left. One call at a time. */
  receive(): Promise<DataFrame>;
  /** Ends the ring with an error, and tells the neighbours, who tell theirs. */
  fail(error: GradringError): void;
  /**
   * Leaves the ring: says goodbye, unless it has failed, and closes the links when the right neighbour has taken all that was sent
   * to it, or is gone.
   */
  close(): Promise<void>;
}

/** A ring of one: no sockets, and no collective that would use them. */
export class SoloTransport implements Transport {
  readonly rank = 0;
  readonly worldSize = 1;
  readonly traffic = { bytesSent: 0, bytesReceived: 0 };
  readonly failed = false;

  send(): Promise<void> {
    return Promise.reject(alone());
  }

  forward(): Promise<void> {
    return Promise.reject(alone());
  }

  receive(): Promise<DataFrame> {
    return Promise.reject(alone());
  }

  fail(): void {
    // Nobody to tell.
  }

  async close(): Promise<void> {
    // Nothing to close.
  }
}

function alone(): GradringError {
  return new GradringError('ERR_COMM_THREAD', 'A ring of one tried to use the network: a bug in gradring.');
}
