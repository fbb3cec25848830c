import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { attempt } from '../attempt';

/** A TensorFlow on this machine that the binding of tfjs-node can be built against. */
export interface LibTensorFlow {
  /** The folder with `tensorflow/c/c_api.h` and the headers that this includes. */
  readonly includeDirectory: string;
  /** The folder with the two libraries. */
  readonly libraryDirectory: string;
  /** File name of the library with the C API: `libtensorflow.so.2`, or `libtensorflow_cc.so.2` of a Python package. */
  readonly library: string;
  /** File name of the other library: `libtensorflow_framework.so.2`. */
  readonly framework: string;
  /** Whether it was built with CUDA; undefined if that is unknown. */
  readonly isCuda: boolean | undefined;
}

/**
 * Looks for TensorFlow's C API in a directory. This may be an unpacked libtensorflow (or a prefix such as /usr/local),
 * the `tensorflow` folder of a Python package, the `site-packages` with that folder, or a Python environment. Undefined
 * if it is not there.
 */
export function inspect(directory: string): LibTensorFlow | undefined {
  for (const candidate of candidatesIn(directory)) {
    const includeDirectory = path.join(candidate, 'include');
    if (!existsSync(path.join(includeDirectory, 'tensorflow/c/eager/c_api.h'))) continue;
    for (const libraryDirectory of [candidate, path.join(candidate, 'lib'), path.join(candidate, 'lib64')]) {
      const files = namesIn(libraryDirectory);
      const library = newest(files, 'libtensorflow') ?? newest(files, 'libtensorflow_cc');
      const framework = newest(files, 'libtensorflow_framework');
      if (library === undefined || framework === undefined) continue;
      const found = { includeDirectory, libraryDirectory: realpathSync(libraryDirectory), library, framework };
      return { ...found, isCuda: builtWithCuda(candidate) };
    }
  }
  return undefined;
}

function candidatesIn(directory: string): string[] {
  const versions = namesIn(path.join(directory, 'lib')).filter(name => /^python3/.test(name));
  return [
    directory,
    path.join(directory, 'tensorflow'),
    ...versions.map(version => path.join(directory, 'lib', version, 'site-packages/tensorflow')),
  ];
}

/** `NAME.so.2` if there is one, because the linker stores that name. Otherwise `NAME.so`. */
function newest(files: readonly string[], name: string): string | undefined {
  return [`${name}.so.2`, `${name}.so`].find(file => files.includes(file));
}

/** Reads it from the build information of a Python package. */
function builtWithCuda(tensorflowDirectory: string): boolean | undefined {
  const file = path.join(tensorflowDirectory, 'python/platform/build_info.py');
  if (!existsSync(file)) return undefined;
  const said = /['"]is_cuda_build['"]\s*[,:]\s*(True|False)/.exec(readFileSync(file, 'utf8'));
  return said ? said[1] === 'True' : undefined;
}

/** The names in a directory; none if it cannot be read. */
export function namesIn(directory: string): string[] {
  return attempt(() => readdirSync(directory)) ?? [];
}
