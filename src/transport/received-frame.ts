import { type DataHeader, protocolError } from '../wire/frame';
import { copyBytes } from './copy-bytes';
import type { Message } from './link';
import { releaseMemory } from './release-memory';
import { type Place, placeOf, type Slots } from './slots';
import type { DataFrame } from './transport';

/** A data frame as it came over a link. */
export class ReceivedFrame implements DataFrame {
  readonly body: Buffer;
  private readonly place: Place | undefined;

  /** @throws GradringError `ERR_PROTOCOL` if the body is said to lie where nothing can. */
  constructor(
    readonly header: DataHeader,
    readonly message: Message,
    private readonly slots: Slots | undefined,
  ) {
    this.body = message[1] ?? Buffer.alloc(0);
    if (!header.inSlot) return;
    if (slots === undefined) throw protocolError('has its body in a shared file that this link does not have');
    this.place = placeOf(this.body);
  }

  get bodyBytes(): number {
    return this.place?.bytes ?? this.body.length;
  }

  copyTo(target: Uint8Array, start = 0): void {
    if (this.place === undefined) copyBytes(target, this.body.subarray(start, start + target.length));
    else this.slots!.read(this.place, target, start);
  }

  release(): void {
    if (this.place === undefined) releaseMemory(this.body);
    else this.slots!.empty(this.place);
  }
}
