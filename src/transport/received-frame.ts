import type { DataHeader } from '../wire/frame';
import type { Message } from './link';
import { releaseMemory } from './release-memory';
import type { DataFrame } from './transport';

/** A data frame as it came from a neighbour. */
export class ReceivedFrame implements DataFrame {
  readonly body: Buffer;

  constructor(
    readonly header: DataHeader,
    readonly message: Message,
    /** Whether the sender's memory is lent to the link until this rank says that all has come. */
    readonly lent: boolean,
    /** Frees a body that is not in memory of its own. */
    private readonly free?: () => void,
  ) {
    this.body = message[1]!;
  }

  release(): void {
    if (this.free === undefined) releaseMemory(this.body);
    else this.free();
  }
}
