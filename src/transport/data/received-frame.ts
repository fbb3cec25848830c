import type { DataHeader } from '../../wire/frame';
import type { Message } from '../control/link';
import { releaseMemory } from '../../memory/release-memory';
import type { DataFrame } from '../transport';

/** A data frame as it came from a neighbour. */
export class ReceivedFrame implements DataFrame {
  readonly body: Buffer;
  readonly bytes: number;
  readonly hasLanded: boolean;

  constructor(
    readonly header: DataHeader,
    readonly message: Message,
    /** Whether the sender's memory is lent to the link until this rank says that all has come. */
    readonly lent: boolean,
    /** The length of a body that has landed; of others the message tells. */
    landedBytes?: number,
  ) {
    this.body = message[1]!;
    this.bytes = landedBytes ?? this.body.length;
    this.hasLanded = landedBytes !== undefined;
  }

  release(): void {
    releaseMemory(this.body);
  }
}
