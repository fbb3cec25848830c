import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Frees the memory of a buffer at once, a received one or a copy, which is empty from then on. Nobody else may use it,
 * a send under way least of all.
 *
 * What is left to the garbage collector lies about until tens of megabytes have come, and each next buffer is memory
 * that no cache knows: freed at once, the same few are used again, and links carry half as much again
 * (docs/lab-notes/collectives.md).
 */
export function releaseMemory(bytes: Uint8Array): void {
  const { buffer } = bytes;
  // Small buffers share their memory with others.
  if (bytes.length < SMALLEST || buffer.byteLength !== bytes.length) return;
  detach(buffer as ArrayBuffer);
}

/** Takes a buffer's memory from it: it is empty from then on, as are all views of it. */
export function detach(buffer: ArrayBuffer): void {
  transfer ??= findTransfer();
  transfer.call(buffer, 0);
}

const SMALLEST = 16 * 1024;

type Transfer = (this: ArrayBuffer, newLength: number) => ArrayBuffer;

let transfer: Transfer | undefined;

/**
 * `ArrayBuffer.prototype.transfer`, which detaches a buffer. Node has it from 22 on, before that in new contexts by a
 * flag of V8.
 */
function findTransfer(): Transfer {
  const { transfer } = ArrayBuffer.prototype as { transfer?: Transfer };
  if (transfer !== undefined) return transfer;
  setFlagsFromString('--harmony-rab-gsab-transfer');
  return runInNewContext('ArrayBuffer.prototype.transfer') as Transfer;
}
