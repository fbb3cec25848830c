import type * as Koffi from 'koffi';
import { detach } from './release-memory';

/** What Node has no call for. */
interface SystemCalls {
  readonly mmap: (at: null, bytes: number, protection: number, flags: number, file: number, offset: number) => bigint;
  readonly munmap: (at: bigint, bytes: number) => number;
  readonly pipe2: (ends: Int32Array, flags: number) => number;
  readonly sched_yield: () => number;
  readonly viewOf: (at: bigint, bytes: number) => ArrayBuffer;
}

// As Linux has them.
const READ_AND_WRITE = 1 | 2;
const SHARED = 1;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;
const O_NONBLOCK = 0o4000;
const O_CLOEXEC = 0o2000000;

/** Where pointers and offsets are not those of the declarations below. */
const OTHER_SIZES = ['arm', 'ia32', 'mips', 'mipsel'];

let calls: SystemCalls | undefined;

/**
 * The C library's functions, through koffi.
 *
 * @throws Error where koffi is not there: it is an optional dependency; and on 32 bits.
 */
function systemCalls(): SystemCalls {
  if (calls !== undefined) return calls;
  if (OTHER_SIZES.includes(process.arch)) throw new Error('Memory is mapped on 64 bits only.');
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- it may be missing
  const koffi = require('koffi') as typeof Koffi;
  const library = koffi.load(null);
  calls = {
    mmap: library.func('void *mmap(void *at, size_t bytes, int protection, int flags, int file, int64_t offset)'),
    munmap: library.func('int munmap(void *at, size_t bytes)'),
    pipe2: library.func('int pipe2(int *ends, int flags)'),
    sched_yield: library.func('int sched_yield()'),
    viewOf: (at, bytes) => koffi.view(at, bytes) as ArrayBuffer,
  };
  return calls;
}

/** Whether files can be mapped here at all. */
export function canMapFiles(): boolean {
  try {
    systemCalls();
    return true;
  } catch {
    return false;
  }
}

/** A file's bytes, as memory that all processes share who have mapped it. */
export interface MappedFile {
  readonly bytes: ArrayBuffer;
  /** The bytes are none from then on, as those of a detached buffer. */
  unmap(): void;
}

/**
 * Maps the first bytes of an open file, which must be that long, and stay so: who touches what is not there any more is
 * ended by SIGBUS.
 *
 * @throws Error where this system cannot.
 */
export function mapFile(file: number, bytes: number): MappedFile {
  const { mmap, munmap, viewOf } = systemCalls();
  const at = mmap(null, bytes, READ_AND_WRITE, SHARED, file, 0);
  if (at === MAP_FAILED) throw new Error('The file could not be mapped.');
  let view: ArrayBuffer | undefined;
  const unmap = () => {
    if (view !== undefined) detach(view); // or who still had it would end the process by SIGSEGV
    munmap(at, bytes);
  };
  try {
    view = viewOf(at, bytes);
    return { bytes: view, unmap };
  } catch (error) {
    unmap();
    throw error;
  }
}

/**
 * Makes a pipe. The caller closes both ends.
 *
 * @throws Error where this system cannot.
 */
export function makePipe(): { readonly readEnd: number; readonly writeEnd: number } {
  const ends = new Int32Array(2);
  if (systemCalls().pipe2(ends, O_CLOEXEC | O_NONBLOCK) !== 0) throw new Error('No pipe could be made.');
  return { readEnd: ends[0]!, writeEnd: ends[1]! };
}

/** Lets another process that is ready have this core. Only for who has mapped a file. */
export function yieldCore(): void {
  systemCalls().sched_yield();
}
