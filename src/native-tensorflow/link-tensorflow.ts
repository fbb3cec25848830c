import { rmSync } from 'node:fs';
import { buildBinding, hasBinding, readRecord, undoBinding } from './binding';
import { findLibTensorFlow } from './find-libtensorflow';
import type { LibTensorFlow } from './libtensorflow';
import { installPackage, packageDirectory, type PackageName } from './npm-package';
import { type Proof, prove } from './prove';
import { cacheDirectory } from './python-packages';

/** What stands behind a package of TensorFlow.js for Node. */
export interface LinkState {
  readonly package: PackageName;
  /** Where the package is; undefined if it is not installed. */
  readonly directory: string | undefined;
  /**
   * `linked` by gradring; `installed` by npm with its own binding; `no binding`: its install script did not get there.
   */
  readonly state: 'not installed' | 'no binding' | 'installed' | 'linked';
  /** What it is linked to. */
  readonly libTensorFlow?: LibTensorFlow;
  /** What it computed; undefined if it was not tried. */
  readonly proof?: Proof;
  /** Why it does not work. */
  readonly failure?: string;
}

export interface LinkOptions {
  readonly package: PackageName;
  /** A directory, or `auto`. */
  readonly from: string;
  /** Is told each step. */
  readonly say: (line: string) => void;
}

/**
 * Makes a package of TensorFlow.js for Node run on a TensorFlow of this machine. What is linked so already is only
 * tried again.
 *
 * @throws GradringError `ERR_TENSORFLOW`, saying what is missing; the package is then as it was before.
 */
export async function linkTensorFlow({ package: name, from, say }: LinkOptions): Promise<LinkState> {
  const libTensorFlow = await findLibTensorFlow(from, say);
  say(`TensorFlow: ${libTensorFlow.libraryDirectory}/${libTensorFlow.library}`);
  const present = packageDirectory(name);
  const before = present === undefined ? undefined : readRecord(present);
  const isLinked = before?.isComplete && isSame(before.libTensorFlow, libTensorFlow) && hasBinding(present!);
  if (!isLinked) {
    if (present === undefined) say(`Installing @tensorflow/${name} without its install script …`);
    const directory = present ?? (await installPackage(name));
    say('Building the binding with node-gyp …');
    const installedPackage = present === undefined || before?.installedPackage === true;
    await buildBinding(directory, { libTensorFlow, installedPackage });
  }
  say('Trying it …');
  const directory = packageDirectory(name)!;
  try {
    return { package: name, directory, state: 'linked', libTensorFlow, proof: await prove(name) };
  } catch (error) {
    if (!isLinked) undoBinding(directory);
    throw error;
  }
}

/** Reports how a package stands, and tries it, without changing anything. */
export async function checkLink(name: PackageName): Promise<LinkState> {
  const directory = packageDirectory(name);
  if (directory === undefined) return { package: name, directory, state: 'not installed' };
  if (!hasBinding(directory)) return { package: name, directory, state: 'no binding' };
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
  /** The TensorFlow that was fetched for the link: other projects may be linked to it, too. */
  readonly kept?: string;
}

/** Takes a link back. */
export function undoLink(name: PackageName): Undone {
  const removed: string[] = [];
  const directory = packageDirectory(name);
  const record = directory === undefined ? undefined : readRecord(directory);
  if (record?.installedPackage) {
    rmSync(directory!, { recursive: true });
    removed.push(directory!);
  } else if (record !== undefined) {
    undoBinding(directory!);
    removed.push(`the link in ${directory}`);
  }
  const isFetched = record?.libTensorFlow.libraryDirectory.startsWith(cacheDirectory());
  return { removed, ...(isFetched && { kept: cacheDirectory() }) };
}

function isSame(one: LibTensorFlow, other: LibTensorFlow): boolean {
  return one.libraryDirectory === other.libraryDirectory && one.library === other.library;
}
