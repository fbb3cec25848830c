import { mkdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { refusalOf } from '../find-package';
import { namesIn } from './libtensorflow';
import { cacheDirectory } from './link-note';
import { linkFailure, runProgram } from './run-program';

/** The Python that is used. An active environment comes first on the PATH. */
const PYTHON = process.platform === 'win32' ? 'python' : 'python3';

/** `-c` lets modules of the working directory, which may be another user's, come before those of Python. */
const FROM_NO_FOLDER = `
import sys
if sys.path[:1] == ['']: del sys.path[0]`;

const FIND = `
import importlib.util
spec = importlib.util.find_spec('tensorflow')
print(spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else '')`;

/** Unpacks only the parts of a wheel that a C program is built with, and the file that says whether CUDA is used. */
const UNPACK = `
import zipfile
wanted = ('tensorflow/include/', 'tensorflow/libtensorflow', 'tensorflow/python/platform/build_info.py')
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith(wanted)])`;

const PIP = `
import runpy
runpy.run_module('pip', run_name='__main__', alter_sys=True)`;

function python(program: string, ...args: string[]) {
  return runProgram(PYTHON, ['-c', FROM_NO_FOLDER + program, ...args]);
}

/** The `tensorflow` folder that Python would import; undefined if there is none, or if there is no Python. */
export async function installedTensorFlow(): Promise<string | undefined> {
  const { code, stdout } = await python(FIND);
  return code === 0 ? stdout.trim() || undefined : undefined;
}

/** The folder in which {@link fetchTensorFlow} keeps its download. */
export function fetchedTensorFlow(): string {
  return path.join(cacheDirectory(), 'tensorflow');
}

/**
 * Downloads the wheel of `tensorflow-cpu` from the index that pip is configured for, and unpacks it. Later calls find
 * it there. An interrupted download is never used.
 *
 * @returns The directory with the unpacked wheel.
 * @throws GradringError `ERR_TENSORFLOW` with the error output of pip.
 */
export async function fetchTensorFlow(say: (line: string) => void): Promise<string> {
  const directory = fetchedTensorFlow();
  const refusal = refusalOf(cacheDirectory()) ?? refusalOf(directory);
  if (refusal !== undefined) throw linkFailure(`${refusal}. Set XDG_CACHE_HOME to a folder of your own.`);
  if (namesIn(directory).includes('tensorflow')) return directory;
  const aside = `${directory}.part-${process.pid}`;
  rmSync(aside, { recursive: true, force: true }); // of a killed process with the same number
  mkdirSync(aside, { recursive: true });
  try {
    say('Downloading tensorflow-cpu (about 270 MB) with pip …');
    const options = ['--quiet', '--no-deps', '--only-binary=:all:', '--dest', aside];
    const fetched = await python(PIP, 'download', ...options, 'tensorflow-cpu');
    const wheel = namesIn(aside).find(name => name.endsWith('.whl'));
    if (fetched.code !== 0 || wheel === undefined)
      throw linkFailure(`pip cannot fetch tensorflow-cpu: ${fetched.reason}`);
    say(`Unpacking ${wheel} …`);
    await unpackWheel(path.join(aside, wheel), aside);
    rmSync(path.join(aside, wheel));
    rmSync(directory, { recursive: true, force: true });
    renameSync(aside, directory);
    return directory;
  } finally {
    rmSync(aside, { recursive: true, force: true });
  }
}

async function unpackWheel(wheel: string, directory: string): Promise<void> {
  const { code, reason } = await python(UNPACK, wheel, directory);
  if (code !== 0) throw linkFailure(`${wheel} cannot be unpacked: ${reason}`);
}
