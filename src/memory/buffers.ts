import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Copies all of `source` to the start of `target`, which must be at least as long.
 *
 * `fill` with an array is memcpy in Node. `set` copies shared memory word by word, as JavaScript's memory model
 * demands, or even byte by byte: 2.4 GB/s instead of 60.
 */
export function copyBytes(target: Uint8Array, source: Uint8Array): void {
  if (source.length === 0) return;
  Buffer.from(target.buffer, target.byteOffset, source.length).fill(source);
}

/** A copy in memory of its own, which is not shared. */
export function copyOf(bytes: Uint8Array): Uint8Array {
  const copy = Buffer.allocUnsafe(bytes.length);
  copyBytes(copy, bytes);
  return copy;
}

/**
 * Frees the memory of a received buffer or a copy at once. The buffer is empty from then on. Nothing else may use it,
 * above all no send under way.
 *
 * The garbage collector would free such buffers only after tens of megabytes, and each new buffer would be in no cache.
 * If they are freed at once, the same few are used again, and links carry 1.5 times as much
 * (docs/lab-notes/collectives.md).
 */
export function releaseMemory(bytes: Uint8Array): void {
  const { buffer } = bytes;
  // Small buffers share their memory with others.
  if (bytes.length < SMALLEST || buffer.byteLength !== bytes.length) return;
  detach(buffer as ArrayBuffer);
}

/** Takes a buffer's memory away. From then on it and all its views are empty. */
export function detach(buffer: ArrayBuffer): void {
  transfer ??= findTransfer();
  transfer.call(buffer, 0);
}

const SMALLEST = 16 * 1024;

type Transfer = (this: ArrayBuffer, newLength: number) => ArrayBuffer;

let transfer: Transfer | undefined;

/**
 * `ArrayBuffer.prototype.transfer`, which detaches a buffer. Node has it from 22 on; before, a flag of V8 adds it to
 * new contexts.
 */
function findTransfer(): Transfer {
  const { transfer } = ArrayBuffer.prototype as { transfer?: Transfer };
  if (transfer !== undefined) return transfer;
  setFlagsFromString('--harmony-rab-gsab-transfer');
  return runInNewContext('ArrayBuffer.prototype.transfer') as Transfer;
}

/**
 * Frees the shared memories that this thread has dropped. A memory is gone when every thread that had it has done so.
 *
 * V8 does not count shared memory when it decides when to collect. So dropped gigabytes would stay as long as little
 * else is allocated: on the comm thread, for ever. Only the flag makes a collection possible. It collects this thread's
 * whole heap.
 */
export function collectGarbage(): void {
  collect ??= exposedCollector();
  collect();
}

let collect: (() => void) | undefined;

function exposedCollector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}
