import { existsSync, realpathSync, rmSync } from 'node:fs';
import path from 'node:path';
import { attempt } from '../attempt';
import { buildBinding, hasBinding, readRecord, undoBinding } from './binding';
import { inspect, type LibTensorFlow } from './libtensorflow';
import { linkCommandFor, readNote, removeNote, writeNote } from './link-note';
import { installPackage, packageDirectory, type PackageName } from './npm-package';
import { type Proof, prove } from './prove';
import { fetchedTensorFlow, fetchTensorFlow, installedTensorFlow } from './python-packages';
import { linkFailure } from './run-program';

/** The usual places of an unpacked libtensorflow. */
const PREFIXES = ['/usr/local', '/usr', '/opt/libtensorflow', '/opt/tensorflow'];

/** How a package of TensorFlow.js for Node is installed. */
export interface LinkState {
  readonly package: PackageName;
  /** The folder of the package; undefined if it is not installed. */
  readonly directory: string | undefined;
  /**
   * `linked`: by gradring. `installed`: by npm with its own binding. `no binding`: its install script failed or did not
   * run. `link lost`: gradring linked it, and npm has removed the link. `refused`: another user may have made it.
   */
  readonly state: 'not installed' | 'no binding' | 'link lost' | 'refused' | 'installed' | 'linked';
  /** The command that restores a lost link. */
  readonly relink?: string;
  /** The TensorFlow that it is linked to. */
  readonly libTensorFlow?: LibTensorFlow;
  /** What it computed; undefined if it was not tried or does not work. */
  readonly proof?: Proof;
  /** Why it does not work, or is refused. */
  readonly failure?: string;
}

/** What to link. */
export interface LinkOptions {
  readonly package: PackageName;
  /** A directory, or `auto`. */
  readonly from: string;
  /** Called with a line about each step. */
  readonly say: (line: string) => void;
}

/**
 * Makes a package of TensorFlow.js for Node run on a TensorFlow of this machine. A link to the same TensorFlow stays as
 * it is if it still works.
 *
 * @throws GradringError `ERR_TENSORFLOW`, which says what is missing. The package then has no link.
 */
export async function linkTensorFlow({ package: name, from, say }: LinkOptions): Promise<LinkState> {
  const libTensorFlow = await findLibTensorFlow(from, say);
  say(`TensorFlow: ${libTensorFlow.libraryDirectory}/${libTensorFlow.library}`);
  const present = presentDirectory(name);
  const before = present === undefined ? undefined : readRecord(present);
  if (before?.isComplete && isSame(before.libTensorFlow, libTensorFlow) && hasBinding(present!)) {
    say('It is linked already. Trying it …');
    const proof = await prove(name).catch((error: Error) => say(error.message));
    if (proof) return linked({ package: name, directory: present, state: 'linked', libTensorFlow, proof }, from);
  }
  if (present === undefined) say(`Installing @tensorflow/${name} without its install script …`);
  const directory = present ?? (await installPackage(name));
  const installedPackage = present === undefined || before?.installedPackage === true;
  try {
    say('Building the binding with node-gyp …');
    await buildBinding(directory, { libTensorFlow, installedPackage });
    say('Trying it …');
    return linked({ package: name, directory, state: 'linked', libTensorFlow, proof: await prove(name) }, from);
  } catch (error) {
    undoBinding(directory);
    if (present === undefined) rmSync(directory, { recursive: true });
    throw error;
  }
}

/**
 * Finds a TensorFlow to link.
 *
 * @param from A directory (see {@link inspect}), or `auto`: then it looks in the Python environment and in the usual
 *   places, and otherwise downloads the wheel of tensorflow-cpu.
 * @throws GradringError `ERR_TENSORFLOW` if there is none.
 */
async function findLibTensorFlow(from: string, say: (line: string) => void): Promise<LibTensorFlow> {
  if (from !== 'auto') return inspectNamed(path.resolve(from));
  const ofPython = await installedTensorFlow();
  const places = [...(ofPython === undefined ? [] : [ofPython]), ...PREFIXES];
  for (const place of places) {
    const found = inspect(place);
    if (found !== undefined) return found;
  }
  const fetched = await fetchTensorFlow(say).catch((error: Error) => {
    const tried = places.join(', ');
    throw linkFailure(
      `No TensorFlow was found in ${tried}, and none can be fetched. ${error.message}\n` +
        'Install one (pip install tensorflow-cpu; with a GPU: pip install "tensorflow[and-cuda]"), or unpack libtensorflow and pass its directory with --from.',
    );
  });
  return inspectNamed(fetched);
}

function inspectNamed(directory: string): LibTensorFlow {
  const found = inspect(directory);
  if (found !== undefined) return found;
  if (!existsSync(directory)) throw linkFailure(`${directory} does not exist.`);
  const words = `${directory} has no TensorFlow to build against. It must have include/tensorflow/c/eager/c_api.h, and beside that or in lib the libraries libtensorflow (or libtensorflow_cc) and libtensorflow_framework. A Python environment with tensorflow or tensorflow-cpu has them, and so has an unpacked libtensorflow.`;
  throw linkFailure(words);
}

function linked(state: LinkState, from: string): LinkState {
  writeNote(state.package, from);
  return state;
}

/** Reports the state of a package, and tries it. It changes nothing. */
export async function checkLink(name: PackageName): Promise<LinkState> {
  const { directory, refused } = packageDirectory(name);
  if (refused !== undefined) return { package: name, directory, state: 'refused', failure: refused };
  if (directory === undefined || !hasBinding(directory)) {
    const note = readNote(name, [process.cwd()]);
    if (note) return { package: name, directory, state: 'link lost', relink: linkCommandFor(name, note) };
    return { package: name, directory, state: directory === undefined ? 'not installed' : 'no binding' };
  }
  const libTensorFlow = readRecord(directory)?.libTensorFlow;
  const state = {
    package: name,
    directory,
    state: libTensorFlow ? 'linked' : 'installed',
    ...(libTensorFlow && { libTensorFlow }),
  } as const;
  try {
    return { ...state, proof: await prove(name) };
  } catch (error) {
    return { ...state, failure: (error as Error).message };
  }
}

/** What {@link undoLink} did, in words. */
export interface Undone {
  readonly removed: readonly string[];
  /** The TensorFlow that was downloaded for the link. It stays, because other projects may be linked to it. */
  readonly kept?: string;
}

/** Removes a link and its note. */
export function undoLink(name: PackageName): Undone {
  const removed: string[] = [];
  const directory = presentDirectory(name);
  const record = directory === undefined ? undefined : readRecord(directory);
  if (record?.installedPackage) {
    rmSync(directory!, { recursive: true });
    removed.push(directory!);
  } else if (record !== undefined) {
    undoBinding(directory!);
    removed.push(`the link in ${directory}`);
  }
  if (removeNote(name) && record === undefined) removed.push('the note of a link that npm has removed');
  const fetched = attempt(() => realpathSync(fetchedTensorFlow())); // as inspect resolves the library's folder
  const isFetched = fetched !== undefined && record?.libTensorFlow.libraryDirectory.startsWith(fetched);
  return { removed, ...(isFetched && { kept: fetchedTensorFlow() }) };
}

/** @throws GradringError `ERR_TENSORFLOW` if the package that is there is refused. */
function presentDirectory(name: PackageName): string | undefined {
  const { directory, refused } = packageDirectory(name);
  if (refused !== undefined) throw linkFailure(`${refused}.`);
  return directory;
}

function isSame(one: LibTensorFlow, other: LibTensorFlow): boolean {
  return one.libraryDirectory === other.libraryDirectory && one.library === other.library;
}
