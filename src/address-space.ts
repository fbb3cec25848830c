import { readFileSync } from 'node:fs';
import { GradringError } from './errors';
import type { KernelMemory } from './kernel-memory';
import { processLimit } from './process-limits';

const PAGE_BYTES = 64 * 1024;
const GIBIBYTE = 2 ** 30;

/** The most bytes of addresses that a thread with sockets reserves when it starts. */
const THREAD_BYTES = GIBIBYTE;

/**
 * How many bytes of addresses this process may have, whether it uses the memory or only reserves it: `ulimit -v`.
 * Undefined if there is no limit, or the system does not say it.
 */
export function addressSpaceLimit(): number | undefined {
  const limit = processLimit('Max address space');
  return limit === Infinity ? undefined : limit;
}

/** About how many bytes of addresses a rank needs. */
export interface AddressSpaceNeeds {
  readonly withoutWasm: number;
  /** With the backend wasm, which has a memory of its own. */
  readonly withWasm: number;
  /** The same in words, and what to do if the limit is lower: two sentences, the second without its full stop. */
  readonly advice: string;
}

/**
 * A rank has three WebAssembly memories: that of the communicator, that of a model, and that in which `lowRank` writes
 * messages. (Its helper threads would have more, but there are none if addresses are limited.) With the backend wasm
 * there is one more. V8 reserves 8 or 10 GiB for each, whatever its size. If the trap handler of V8 is off, V8 reserves
 * 4 GiB for a memory that can grow, and little for others. Some versions of Node turn it off by themselves.
 */
export function addressSpaceNeeds(): AddressSpaceNeeds {
  const each = reservedForMemory();
  const isTrapHandlerOff = each < GIBIBYTE;
  const [withoutWasm, withWasm] = isTrapHandlerOff
    ? [8 * GIBIBYTE, 12 * GIBIBYTE]
    : [3 * each + 4 * GIBIBYTE, 4 * each + 4 * GIBIBYTE];
  const needs = `A rank reserves about ${gibibytes(withoutWasm)} of addresses, with the backend wasm ${gibibytes(withWasm)}, and uses little of them.`;
  const raise = 'Raise the limit (`ulimit -v unlimited`; h_vmem of Grid Engine)';
  const orLess =
    ', or set NODE_OPTIONS=--disable-wasm-trap-handler: Node then reserves less, and WebAssembly is a little slower';
  return { withoutWasm, withWasm, advice: `${needs} ${raise}${isTrapHandlerOff ? '' : orLess}` };
}

/** For the end of a message that says what memory the system has refused. Empty if the address space is not limited. */
export function ifAddressSpaceIsLimited(): string {
  const limit = addressSpaceLimit();
  if (limit === undefined) return '';
  return ` This process may have only ${gibibytes(limit)} of addresses (ulimit -v). ${addressSpaceNeeds().advice}.`;
}

/** How many bytes of addresses V8 reserves for a memory of one page, in whole GiB. */
function reservedForMemory(): number {
  const before = addressesInUse();
  try {
    new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  } catch {
    return 10 * GIBIBYTE;
  }
  return Math.round((addressesInUse() - before) / GIBIBYTE) * GIBIBYTE;
}

function addressesInUse(): number {
  const [, kibibytes] = /^VmSize:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return 1024 * Number(kibibytes);
}

/**
 * Checks that a thread can start. If V8 finds no room for it, it ends the whole process.
 *
 * @throws GradringError `ERR_OUT_OF_MEMORY`
 */
export function requireRoomForThread(): void {
  const limit = addressSpaceLimit();
  if (limit === undefined) return;
  if (limit - addressesInUse() >= THREAD_BYTES) return;
  const words = `There is no room for the communicator's thread.${ifAddressSpaceIsLimited()}`;
  throw new GradringError('ERR_OUT_OF_MEMORY', words);
}

/**
 * A memory that threads share.
 *
 * @param bytes Its size at first.
 * @param maximumBytes What it can grow to.
 * @param purpose For the error: There is no room `for …`.
 * @throws GradringError `ERR_OUT_OF_MEMORY` if the system does not give it.
 */
export function sharedMemory(bytes: number, maximumBytes: number, purpose: string): KernelMemory {
  const [initial, maximum] = [bytes, maximumBytes].map(size => Math.ceil(size / PAGE_BYTES)) as [number, number];
  try {
    return new WebAssembly.Memory({ initial, maximum, shared: true });
  } catch (error) {
    const words = `There is no room ${purpose}.${ifAddressSpaceIsLimited()}`;
    throw new GradringError('ERR_OUT_OF_MEMORY', words, {}, { cause: error });
  }
}

/**
 * Makes a memory of {@link sharedMemory} larger, if it has fewer bytes than that.
 *
 * @param purpose For the error: There is no room `for …`.
 * @throws GradringError `ERR_OUT_OF_MEMORY` if it can grow no more, or the system does not give it.
 */
export function growMemory(memory: KernelMemory, bytes: number, purpose: string): void {
  const missing = bytes - memory.buffer.byteLength;
  if (missing <= 0) return;
  try {
    memory.grow(Math.ceil(missing / PAGE_BYTES));
  } catch (error) {
    const words = `There is no room ${purpose}: ${bytes} bytes.${ifAddressSpaceIsLimited()}`;
    throw new GradringError('ERR_OUT_OF_MEMORY', words, {}, { cause: error });
  }
}

export function gibibytes(bytes: number): string {
  return `${Number((bytes / GIBIBYTE).toFixed(1))} GiB`;
}
