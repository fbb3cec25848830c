import { closeSync, fstatSync, openSync, readSync, symlinkSync, unlinkSync, writeSync } from 'node:fs';
import { protocolError } from '../wire/frame';

/** The largest body that a slot takes. */
export const SLOT_BYTES = 512 * 1024;

const SLOT_COUNT = 8;

/** Behind the slots, a byte of each: 1 from when it is filled to when it is emptied. */
const STATES_AT = SLOT_COUNT * SLOT_BYTES;

/** Where a body lies: sent instead of it. */
const PLACE_BYTES = 8;

/**
 * A file in memory that both ends of a link between processes of one host have open: large bodies go through it, and
 * the messages tell only where they lie. That spares them the socket's buffers, its thread, and memory made and freed
 * for each message.
 *
 * One end fills slots, the other empties them. The lowest free slot is taken, so that few are in use and the caches
 * know them.
 */
export class Slots {
  private readonly states = Buffer.alloc(SLOT_COUNT);
  private closed = false;

  private constructor(private readonly file: number) {}

  /**
   * Makes the file, all of it. Undefined where it cannot be had, as in a container whose /dev/shm is full: all goes by
   * the socket then.
   *
   * The file itself has no name, or it would stay when this process is killed before the other end has opened it. What
   * is made at the path is a link to where the other end finds it while this process runs.
   */
  static create(path: string | undefined): Slots | undefined {
    return attempt(path, path => {
      const slots = new Slots(openSync(path, 'wx+', 0o600));
      try {
        unlinkSync(path);
        const zeros = Buffer.alloc(SLOT_BYTES);
        for (let i = 0; i < SLOT_COUNT; i++) writeSync(slots.file, zeros, 0, SLOT_BYTES, i * SLOT_BYTES);
        writeSync(slots.file, zeros, 0, SLOT_COUNT, STATES_AT);
        symlinkSync(`/proc/${process.pid}/fd/${slots.file}`, path);
        return slots;
      } catch (error) {
        slots.close();
        throw error;
      }
    });
  }

  /** Opens the file that the other end has made. Undefined if there is none. */
  static open(path: string | undefined): Slots | undefined {
    return attempt(path, path => {
      const slots = new Slots(openSync(path, 'r+'));
      if (fstatSync(slots.file).size === STATES_AT + SLOT_COUNT) return slots;
      slots.close();
      return undefined;
    });
  }

  /**
   * Puts a body into a slot. Returns what tells the other end where, or undefined if none is free, or the file gives
   * up.
   */
  fill(body: Uint8Array): Uint8Array | undefined {
    if (this.closed || body.length > SLOT_BYTES) return undefined;
    let slot: number;
    try {
      if (readSync(this.file, this.states, 0, SLOT_COUNT, STATES_AT) < SLOT_COUNT) return undefined;
      slot = this.states.indexOf(0);
      if (slot === -1) return undefined;
      if (writeSync(this.file, body, 0, body.length, slot * SLOT_BYTES) < body.length) return undefined;
      writeSync(this.file, TAKEN, 0, 1, STATES_AT + slot);
    } catch {
      return undefined;
    }
    const place = Buffer.alloc(PLACE_BYTES);
    place.writeUInt32LE(slot, 0);
    place.writeUInt32LE(body.length, 4);
    return place;
  }

  /** Fills `target` with what a slot's body has from that byte on. */
  read({ slot }: Place, target: Uint8Array, start: number): void {
    const read = readSync(this.file, target, 0, target.length, slot * SLOT_BYTES + start);
    if (read !== target.length) throw protocolError('lies past the end of the shared file');
  }

  /** Frees a slot. */
  empty({ slot }: Place): void {
    writeSync(this.file, FREE, 0, 1, STATES_AT + slot);
  }

  /** May be called twice. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    closeSync(this.file);
  }
}

/** Where a body lies in the file. */
export interface Place {
  readonly slot: number;
  readonly bytes: number;
}

/** @throws GradringError `ERR_PROTOCOL` for what is no place of the file. */
export function placeOf(bytes: Buffer): Place {
  if (bytes.length !== PLACE_BYTES) throw protocolError('names no place in the shared file');
  const place = { slot: bytes.readUInt32LE(0), bytes: bytes.readUInt32LE(4) };
  if (place.slot >= SLOT_COUNT || place.bytes > SLOT_BYTES) throw protocolError('names no place in the shared file');
  return place;
}

const TAKEN = Buffer.of(1);
const FREE = Buffer.of(0);

function attempt(path: string | undefined, make: (path: string) => Slots | undefined): Slots | undefined {
  if (path === undefined) return undefined;
  try {
    return make(path);
  } catch {
    return undefined;
  }
}
