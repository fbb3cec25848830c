import path from 'node:path';
import util from 'node:util';
import { addressSpaceLimit, gibibytes } from '../address-space';
import { attempt } from '../attempt';
import { checkOptions } from '../check-options';
import { GradringError } from '../errors';
import { findPackage } from '../find-package';
import { hasBinding } from '../native-tensorflow/binding';
import { linkCommandFor, readNote } from '../native-tensorflow/link-note';
import { packageDirectory, type PackageName } from '../native-tensorflow/npm-package';
import { ownFile } from '../own-file';
import { BACKEND_NAMES, type BackendName } from './backend-names';
import type { KernelBackend } from './kernels/kernel';
import { tf } from './tfjs';

/** The module `@tensorflow/tfjs`. */
export type TensorFlow = typeof import('@tensorflow/tfjs');

export type { BackendName };

/** What {@link loadBackend} may take. */
export interface BackendOptions {
  /** The only backend to try. Default: `GRADRING_BACKEND`; without it, all in order. */
  readonly backend?: BackendName | undefined;
  /** Called with one line that says which backend was taken, and why. Default: nothing is printed. */
  readonly log?: ((line: string) => void) | undefined;
}

/** What {@link loadBackend} has loaded. */
export interface LoadedBackend {
  /** TensorFlow.js, the same module as `require('@tensorflow/tfjs')`, set to the backend and ready. */
  readonly tf: TensorFlow;
  readonly name: BackendName;
  /** Why this one was taken, for people. */
  readonly reason: string;
  /** The backends that were tried before, and why each does not work. */
  readonly skipped: readonly { readonly name: BackendName; readonly why: string }[];
}

/** Where scripts/build.js puts it. */
const CARRIED_WASM = 'tensorflow/wasm-backend/tf-backend-wasm.node.js';

/** Functions of `util` that tfjs-node 4.22 calls and that Node removed (isNullOrUndefined, in 23) or deprecated. */
const USED_BY_TFJS_NODE = {
  isArray: Array.isArray,
  isNullOrUndefined: (value: unknown) => value === null || value === undefined,
};

let loading: Promise<LoadedBackend> | undefined;

/** Why a backend cannot be loaded, and the command that helps. */
class LoadFailure extends Error {
  constructor(
    readonly what: string,
    readonly command: string,
    /**
     * What is there of the backend. A `package` without a binding may have been installed as an optional dependency. A
     * `binding`, even if it was lost, was installed on purpose.
     */
    readonly found: 'nothing' | 'package' | 'binding',
    options?: ErrorOptions,
  ) {
    super(`${what} (${command})`, options);
  }
}

/**
 * Loads TensorFlow.js with the first of these backends that works: tfjs-node-gpu, tfjs-node, wasm, cpu. Corrects the
 * operations, gradients and layers of TensorFlow.js that are wrong (docs/reference/operations.md), and adds what the
 * backend lacks for training and for models in files (`file://` URLs).
 *
 * A process has one backend. Further calls are cheap and return the result of the first call; they cannot ask for
 * another backend. After a failure the next call tries again.
 *
 * ```ts
 * const { tf, name } = await loadBackend({ log: line => console.error(line) });
 * console.log(name, tf.add(1, 2).dataSync()[0]); // cpu 3
 * ```
 *
 * @throws GradringError `ERR_BACKEND` if the backend that was asked for is unknown, cannot be loaded, or is not the one
 *   that this process already has; or if no backend can be loaded. `ERR_BUNDLED`.
 */
export async function loadBackend(options: BackendOptions = {}): Promise<LoadedBackend> {
  checkOptions('loadBackend', options, { backend: true, log: true });
  const [asked, askedBy] = readChoice(options);
  ownFile(CARRIED_WASM); // In a bundle no slower backend is taken in silence: nothing else works there, either.
  if (loading !== undefined) {
    const loaded = await loading;
    if (asked === undefined || asked === loaded.name) return loaded;
    throw failure(`'${asked}' was asked for by ${askedBy}, but this process already runs on '${loaded.name}'.`);
  }
  loading = asked === undefined ? loadFirst() : loadOnly(asked, askedBy);
  try {
    const loaded = await loading;
    options.log?.(describe(loaded));
    return loaded;
  } catch (error) {
    loading = undefined;
    throw error;
  }
}

function readChoice(options: BackendOptions): [asked: BackendName | undefined, askedBy: string] {
  const [name, askedBy] =
    options.backend !== undefined
      ? [options.backend, "the option 'backend'"]
      : [process.env['GRADRING_BACKEND'] || undefined, 'GRADRING_BACKEND'];
  if (name === undefined || BACKEND_NAMES.includes(name as BackendName)) return [name as BackendName, askedBy];
  throw failure(`'${name}', asked for by ${askedBy}, is none of the backends: ${BACKEND_NAMES.join(', ')}.`);
}

async function loadOnly(name: BackendName, askedBy: string): Promise<LoadedBackend> {
  try {
    return { tf: await start(name), name, reason: `asked for by ${askedBy}`, skipped: [] };
  } catch (cause) {
    throw failure(`'${name}' was asked for by ${askedBy}, but ${wordsOf(cause)}.`, cause);
  }
}

async function loadFirst(): Promise<LoadedBackend> {
  const skipped: { name: BackendName; why: string }[] = [];
  const failures: LoadFailure[] = [];
  for (const name of BACKEND_NAMES) {
    try {
      const tf = await start(name);
      tell(failures, name);
      return { tf, name, reason: `the first of ${BACKEND_NAMES.join(', ')} that can be loaded here`, skipped };
    } catch (error) {
      skipped.push({ name, why: wordsOf(error) });
      if (error instanceof LoadFailure) failures.push(error);
    }
  }
  throw failure(`none can be loaded: ${listSkipped(skipped)}.`);
}

async function start(name: BackendName): Promise<TensorFlow> {
  switch (name) {
    case 'tfjs-node-gpu':
    case 'tfjs-node':
      await loadNative(name);
      break;
    case 'wasm':
      await loadWasm();
      break;
    case 'cpu':
      (await import('./cpu-backend')).quietCpuBackend();
      await use('cpu');
      break;
  }
  const { registerKernels } = await import('./kernels/register-kernels');
  registerKernels('cpu'); // every process has this backend, too
  registerKernels(tf.getBackend() as KernelBackend);
  (await import('./gradients/register-gradients')).registerGradients();
  (await import('./batch-norm-layer')).completeBatchNormalization();
  (await import('./file-handlers')).registerFileHandlers();
  return tf;
}

async function loadWasm(): Promise<void> {
  try {
    await import(wasmBackend());
    await use('wasm');
    removeEmscriptenHandlers();
  } catch (error) {
    const limit = addressSpaceLimit();
    const limited = limit === undefined ? '' : `; its address space is limited to ${gibibytes(limit)} (ulimit -v)`;
    const what = `wasm does not load: ${wordsOf(error)}${limited}`;
    throw new LoadFailure(what, 'npx gradring doctor', 'binding', { cause: error });
  }
}

/**
 * The project's own tfjs-backend-wasm if it fits: two would register the same kernels. Otherwise the one that
 * scripts/build.js puts into this package. That one runs on the TensorFlow.js of the project, of any version that
 * gradring supports; npm would install a second TensorFlow.js for a tfjs-backend-wasm of another version.
 */
function wasmBackend(): string {
  const { file } = findPackage('@tensorflow/tfjs-backend-wasm', [__filename, ...program()]);
  if (file === undefined) return ownFile(CARRIED_WASM);
  const fits = attempt(() => coreOf(file) === coreOf(require.resolve('@tensorflow/tfjs'))); // it may have no tfjs-core
  return fits === true ? file : ownFile(CARRIED_WASM);
}

/** The script of this process, whose project may have packages that gradring's lacks. None if there is only text. */
function program(): string[] {
  const script = process.argv[1];
  const isText = process.execArgv.some(option => /^(-e|-p|-pe|--eval|--print)(=|$)/.test(option));
  return script === undefined || !path.isAbsolute(script) || isText ? [] : [script];
}

/** The tfjs-core that a module of TensorFlow.js loads. */
function coreOf(file: string): string {
  return require.resolve('@tensorflow/tfjs-core', { paths: [path.dirname(file)] });
}

async function loadNative(name: PackageName): Promise<void> {
  const packageName = `@tensorflow/${name}`;
  const install = `npm install ${packageName}@${tf.version.tfjs}`;
  const places = [__filename, ...program()];
  const { directory, refused } = packageDirectory(name, places);
  if (refused !== undefined) throw new LoadFailure(refused, install, 'binding');
  const note = readNote(name, program());
  const link = linkCommandFor(name, note);
  // Checked first, because the package registers its kernels before it finds that it cannot run them.
  if (directory === undefined || !hasBinding(directory)) {
    if (note) throw new LoadFailure(`npm has removed the link of ${packageName} to TensorFlow`, link, 'binding');
    if (directory) throw new LoadFailure(`${packageName} is installed without its native binding`, link, 'package');
    throw new LoadFailure(`${packageName} is not installed`, install, 'nothing');
  }
  if (require.resolve('@tensorflow/tfjs', { paths: [directory] }) !== require.resolve('@tensorflow/tfjs')) {
    const both = `npm install @tensorflow/tfjs@${tf.version.tfjs} ${packageName}@${tf.version.tfjs}`;
    throw new LoadFailure(`${packageName} uses another copy of @tensorflow/tfjs than gradring`, both, 'binding');
  }
  const main = findPackage(packageName, places);
  if (main.file === undefined) throw new LoadFailure(main.refused ?? `${packageName} is damaged`, install, 'binding');
  // On every rank TensorFlow prints which instructions the processor has, unless it is told to print warnings only.
  process.env['TF_CPP_MIN_LOG_LEVEL'] ??= '1';
  // Ranks may share a GPU. Without this, the first one takes all its memory.
  process.env['TF_FORCE_GPU_ALLOW_GROWTH'] ??= 'true';
  restoreUtil();
  try {
    await import(main.file);
    await use('tensorflow');
  } catch (error) {
    forget('tensorflow');
    throw new LoadFailure(`${packageName} does not load: ${wordsOf(error)}`, link, 'binding', { cause: error });
  }
}

/**
 * Adds to `util` the functions that tfjs-node calls and this Node does not have. tfjs-node looks them up at each call,
 * so they stay. Functions that Node has are not changed.
 */
function restoreUtil(): void {
  for (const [name, value] of Object.entries(USED_BY_TFJS_NODE)) {
    if (!(name in util)) Object.defineProperty(util, name, { value, configurable: true, writable: true });
  }
}

/**
 * Prints one line to stderr if a faster backend is installed but cannot be loaded. Only the first rank of a host does.
 */
function tell(failures: readonly LoadFailure[], taken: BackendName): void {
  if ((process.env['LOCAL_RANK'] || '0') !== '0') return;
  const isNative = taken === 'tfjs-node';
  const worst =
    failures.find(({ found }) => found === 'binding') ??
    // Without a GPU, the binding of the other package would not be faster.
    failures.find(({ found }) => found === 'package' && !isNative);
  if (worst === undefined) return;
  const silence = `GRADRING_BACKEND=${taken} silences this line`;
  console.error(
    `gradring: a faster backend than ${taken} did not load (${silence}). ${worst.what}; run: ${worst.command}`,
  );
}

async function use(backend: string): Promise<void> {
  if (!(await tf.setBackend(backend))) throw new Error('its initialization failed');
  await tf.ready();
  // A native library may load but not run, if it was made for another processor or driver.
  const two = tf.tidy(() => tf.add(1, 1).dataSync()[0]);
  if (two !== 2) throw new Error(`it computes 1 + 1 = ${two}`);
}

/** Undoes an incomplete registration, so that the next package can register the same backend without warnings. */
function forget(backend: string): void {
  if (tf.engine().registryFactory[backend] !== undefined) tf.removeBackend(backend);
  for (const { kernelName } of tf.getKernelsForBackend(backend)) tf.unregisterKernel(kernelName, backend);
}

/**
 * Emscripten's start-up code listens for uncaught errors and throws them again. This turns a script's exit code of 1
 * into 7, and hides where the error came from.
 */
function removeEmscriptenHandlers(): void {
  for (const listener of process.listeners('uncaughtException')) {
    if (/instanceof ExitStatus/.test(String(listener))) process.off('uncaughtException', listener);
  }
  for (const listener of process.listeners('unhandledRejection')) {
    if (/^function\s*\(reason\)\s*{\s*throw reason;?\s*}$/.test(String(listener))) {
      process.off('unhandledRejection', listener);
    }
  }
}

function describe({ tf, name, reason, skipped }: LoadedBackend): string {
  const line = `TensorFlow.js ${tf.version.tfjs} runs on ${name}, ${reason}`;
  return skipped.length > 0 ? `${line} (${listSkipped(skipped)})` : line;
}

function listSkipped(skipped: LoadedBackend['skipped']): string {
  return skipped.map(({ name, why }) => `${name}: ${why}`).join('; ');
}

/** An error's first line without its full stop, to be used within a sentence. */
function wordsOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String((error as { message?: unknown })?.message ?? error);
  return message.split('\n', 1)[0]!.replace(/\.\s*$/, '');
}

function failure(message: string, cause?: unknown): GradringError {
  return new GradringError('ERR_BACKEND', `TensorFlow.js backend: ${message}`, {}, { cause });
}
