import { fstatSync, readdirSync } from 'node:fs';
import type * as Koffi from 'koffi';
import { findPackage, type FoundPackage } from '../../find-package';
import { detach } from '../../memory/buffers';

/** The system calls that Node does not offer. */
interface SystemCalls {
  readonly mmap: (at: null, bytes: number, protection: number, flags: number, file: number, offset: number) => bigint;
  readonly munmap: (at: bigint, bytes: number) => number;
  readonly pipe2: (ends: Int32Array, flags: number) => number;
  readonly open: (path: string, flags: number) => number;
  readonly close: (file: number) => number;
  readonly sched_yield: () => number;
  readonly read: (file: number, place: Uint8Array, count: number) => number;
  readonly send: (file: number, bytes: Uint8Array, count: number, flags: number) => number;
  readonly recv: (file: number, place: Uint8Array, count: number, flags: number) => number;
  readonly poll: (asked: Int16Array, count: number, timeoutMs: number) => number;
  readonly setsockopt: (socket: number, level: number, option: number, value: string, bytes: number) => number;
  readonly attachFilter: (socket: number, level: number, option: number, filter: Filter, bytes: number) => number;
  readonly getsockname: (socket: number, address: Uint8Array, bytes: Uint32Array) => number;
  readonly getsockopt: (socket: number, level: number, option: number, value: Int32Array, bytes: Uint32Array) => number;
  readonly errno: () => number;
  readonly viewOf: (at: bigint, bytes: number) => ArrayBuffer;
}

/** A program that decides which packets a socket receives (`struct sock_fprog`). */
interface Filter {
  readonly len: number;
  readonly filter: Uint16Array;
}

// Their values on Linux.
const READ_AND_WRITE = 1 | 2;
const SHARED = 1;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;
const O_NONBLOCK = 0o4000;
const O_CLOEXEC = 0o2000000;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const MSG_MORE = 0x8000;
const AF_INET = 2;
const AF_INET6 = 10;
const SOL_SOCKET = 1;
const SO_ATTACH_FILTER = 26;
const SO_ACCEPTCONN = 30;
const BPF_RETURN = 6;
const IPPROTO_TCP = 6;
const TCP_CONGESTION = 13;
const EINTR = 4;
const EAGAIN = 11;

/** Architectures where pointers and offsets do not have the sizes that are declared below. */
const OTHER_SIZES = ['arm', 'ia32', 'mips', 'mipsel'];

let calls: SystemCalls | undefined;

/**
 * The C library's functions, through koffi.
 *
 * @throws Error if koffi, an optional dependency, is not installed; and on 32-bit systems.
 */
function systemCalls(): SystemCalls {
  if (calls !== undefined) return calls;
  if (OTHER_SIZES.includes(process.arch)) throw new Error('Memory can be mapped only on 64-bit systems.');
  // Node would also take that of another user.
  if (findKoffi().file !== require.resolve('koffi')) throw new Error('There is no koffi that may be used.');
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- it may be missing
  const koffi = require('koffi') as typeof Koffi;
  const library = koffi.load(null);
  const filter = koffi.pointer(koffi.struct({ len: 'uint16_t', filter: 'void *' }));
  calls = {
    mmap: library.func('void *mmap(void *at, size_t bytes, int protection, int flags, int file, int64_t offset)'),
    munmap: library.func('int munmap(void *at, size_t bytes)'),
    pipe2: library.func('int pipe2(int *ends, int flags)'),
    open: library.func('int open(const char *path, int flags)'),
    close: library.func('int close(int file)'),
    sched_yield: library.func('int sched_yield()'),
    read: library.func('intptr_t read(int file, void *place, size_t count)'),
    send: library.func('intptr_t send(int file, void *bytes, size_t count, int flags)'),
    recv: library.func('intptr_t recv(int file, void *place, size_t count, int flags)'),
    poll: library.func('int poll(void *asked, unsigned long count, int timeoutMs)'),
    setsockopt: library.func('int setsockopt(int socket, int level, int option, const char *value, uint32_t bytes)'),
    attachFilter: library.func('setsockopt', 'int', ['int', 'int', 'int', filter, 'uint32_t']),
    getsockname: library.func('int getsockname(int socket, void *address, void *bytes)'),
    getsockopt: library.func('int getsockopt(int socket, int level, int option, void *value, void *bytes)'),
    errno: () => koffi.errno(),
    viewOf: (at, bytes) => koffi.view(at, bytes) as ArrayBuffer,
  };
  return calls;
}

/** The optional package with which the functions below work. */
export function findKoffi(): FoundPackage {
  return findPackage('koffi', [__filename]);
}

/** Whether the functions below can be used here. */
export function hasSystemCalls(): boolean {
  try {
    systemCalls();
    return process.platform === 'linux';
  } catch {
    return false;
  }
}

/** A file's bytes, as memory that is shared by all processes that map it. */
export interface MappedFile {
  readonly bytes: ArrayBuffer;
  /** From then on `bytes` is a detached buffer. */
  unmap(): void;
}

/**
 * Maps the first bytes of an open file. The file must be that long, and stay so: SIGBUS ends a process that touches
 * bytes which are gone.
 *
 * @throws Error if this system cannot do it.
 */
export function mapFile(file: number, bytes: number): MappedFile {
  const { mmap, munmap, viewOf } = systemCalls();
  const at = mmap(null, bytes, READ_AND_WRITE, SHARED, file, 0);
  if (at === MAP_FAILED) throw new Error('The file could not be mapped.');
  let view: ArrayBuffer | undefined;
  const unmap = () => {
    if (view !== undefined) detach(view); // or a later access would end the process with SIGSEGV
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
 * Makes a pipe. The caller closes both ends, by {@link closePipe} or a `Socket`. (Node keeps account of the descriptors
 * that a worker thread opens by `node:fs`. It would close one that a socket has closed, whatever it means by then.)
 *
 * @throws Error if this system cannot do it.
 */
export function makePipe(): { readonly readEnd: number; readonly writeEnd: number } {
  const ends = new Int32Array(2);
  if (systemCalls().pipe2(ends, O_CLOEXEC | O_NONBLOCK) !== 0) throw new Error('No pipe could be made.');
  return { readEnd: ends[0]!, writeEnd: ends[1]! };
}

/**
 * Opens an end of a pipe of another process. The caller closes it, as those of {@link makePipe}.
 *
 * @param mode `O_WRONLY` or `O_RDWR`.
 * @throws Error if there is none.
 */
export function openPipe(path: string, mode: number): number {
  const { open, close } = systemCalls();
  const file = open(path, mode | O_CLOEXEC | O_NONBLOCK);
  if (file === -1) throw new Error('It cannot be opened.');
  if (fstatSync(file).isFIFO()) return file;
  close(file);
  throw new Error('It is no pipe.');
}

/** Closes an end of a pipe. */
export function closePipe(end: number): void {
  systemCalls().close(end);
}

/** Reads what a pipe holds, as far as it fits, and does not wait. */
export function readPipe(readEnd: number, place: Uint8Array): void {
  systemCalls().read(readEnd, place, place.length);
}

/** Lets another process that is ready use this core. */
export function yieldCore(): void {
  systemCalls().sched_yield();
}

/**
 * Sends as many bytes as the kernel takes without waiting.
 *
 * @param more Whether the next bytes follow at once. Then the kernel may put them into the same packet.
 * @returns how many bytes it took, or −1 if the connection is broken.
 */
export function sendNow(socket: number, bytes: Uint8Array, more: boolean): number {
  const { send } = systemCalls();
  return countOrError(send(socket, bytes, bytes.length, MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0)));
}

/**
 * Receives the bytes that have already arrived, as far as they fit.
 *
 * @returns how many bytes, or −1 if no more will arrive.
 */
export function receiveNow(socket: number, place: Uint8Array): number {
  const received = systemCalls().recv(socket, place, place.length, MSG_DONTWAIT);
  return received === 0 ? -1 : countOrError(received);
}

/**
 * Makes the kernel send without pacing. `bbr` sets a timer for every few packets. A connection within a host loses
 * nothing and has no rate to find out, so it needs none. Every process may choose `reno`.
 */
export function sendUnpaced(socket: number): void {
  systemCalls().setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, 'reno', 'reno'.length);
}

/** The socket of this process that listens at a TCP port. Undefined if there is none, or it cannot be told which. */
export function listenerAt(port: number): number | undefined {
  if (!hasSystemCalls()) return undefined;
  const [found, another] = readdirSync('/proc/self/fd')
    .map(Number)
    .filter(file => listensAt(file, port));
  return another === undefined ? found : undefined;
}

function listensAt(file: number, port: number): boolean {
  const { getsockopt, getsockname } = systemCalls();
  const listens = new Int32Array(1);
  if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, listens, Uint32Array.of(4)) !== 0 || listens[0] === 0) return false;
  const address = new DataView(new ArrayBuffer(28));
  if (getsockname(file, new Uint8Array(address.buffer), Uint32Array.of(28)) !== 0) return false;
  const isTcp = [AF_INET, AF_INET6].includes(address.getUint16(0, true));
  return isTcp && address.getUint16(2) === port;
}

/**
 * A socket that listens receives no packet any more, so nobody can connect to it. The connections that it has accepted
 * continue. Every process may do that to its sockets.
 */
export function admitNobody(socket: number): void {
  const dropAll = Uint16Array.of(BPF_RETURN, 0, 0, 0); // one instruction: keep 0 bytes of each packet
  systemCalls().attachFilter(socket, SOL_SOCKET, SO_ATTACH_FILTER, { len: 1, filter: dropAll }, 16);
}

function countOrError(result: number): number {
  if (result >= 0) return result;
  const error = systemCalls().errno();
  return error === EAGAIN || error === EINTR ? 0 : -1;
}

/** A descriptor, and what to poll it for. */
export interface Polled {
  readonly file: number;
  readonly for: 'input' | 'room';
}

const POLLIN = 1;
const POLLOUT = 4;

/** Shorts in a `struct pollfd`: two for the descriptor, the events to wait for, the events that occurred. */
const POLL_SHORTS = 4;

/**
 * Sleeps until a descriptor is ready or broken, but no longer than the timeout. Returns how many are. The thread does
 * nothing else meanwhile.
 */
export function poll(polled: readonly Polled[], timeoutMs: number): number {
  const shorts = new Int16Array(POLL_SHORTS * polled.length);
  const files = new Int32Array(shorts.buffer);
  polled.forEach((each, i) => {
    files[2 * i] = each.file;
    shorts[POLL_SHORTS * i + 2] = each.for === 'input' ? POLLIN : POLLOUT;
  });
  return systemCalls().poll(shorts, polled.length, timeoutMs);
}
