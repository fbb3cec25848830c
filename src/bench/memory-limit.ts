import { invalidArgument } from '../errors';

const MEMORY_BYTES = 2 ** 32;
/** A heap needs a little for itself. */
const HEAP_BYTES = 64 * 1024;

/** @throws ERR_INVALID_ARGUMENT if a case does not fit in a WebAssembly memory. The message says what it needs. */
export function requireRoom(
  { elements, density }: { readonly elements: number; readonly density: number },
  bytes: number,
  bytesAnElement: number,
): void {
  if (bytes + HEAP_BYTES <= MEMORY_BYTES) return;
  throw invalidArgument(
    `--elements ${elements} at density ${density} needs ${(bytes / 2 ** 30).toFixed(1)} GiB, but a WebAssembly memory ` +
      `has at most 4. Each element needs about ${bytesAnElement} bytes, and 8 more if it is sent.`,
  );
}
