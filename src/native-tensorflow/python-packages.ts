import { mkdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { cacheDirectory } from './cache-directory';
import { linkFailure } from './link-failure';
import { listed } from './listed';
import { runProgram } from './run-program';

/** The Python that is used. An active environment comes first on the PATH. */
const PYTHON = process.platform === 'win32' ? 'python' : 'python3';

const FIND = `
import importlib.util
spec = importlib.util.find_spec('tensorflow')
print(spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else '')`;

/** Unpacks only the parts of a wheel that a C program is built with, and the file that says whether CUDA is used. */
const UNPACK = `
import sys, zipfile
wanted = ('tensorflow/include/', 'tensorflow/libtensorflow', 'tensorflow/python/platform/build_info.py')
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith(wanted)])`;

/** The `tensorflow` folder that Python would import; undefined if there is none, or if there is no Python. */
export async function installedTensorFlow(): Promise<string | undefined> {
  const { code, stdout } = await runProgram(PYTHON, ['-c', FIND]);
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
  if (listed(directory).includes('tensorflow')) return directory;
  const aside = `${directory}.part-${process.pid}`;
  mkdirSync(aside, { recursive: true });
  try {
    say('Downloading tensorflow-cpu (about 270 MB) with pip …');
    const pip = ['-m', 'pip', 'download', '--quiet', '--no-deps', '--only-binary=:all:', '--dest', aside];
    const fetched = await runProgram(PYTHON, [...pip, 'tensorflow-cpu']);
    const wheel = listed(aside).find(name => name.endsWith('.whl'));
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
  const { code, reason } = await runProgram(PYTHON, ['-c', UNPACK, wheel, directory]);
  if (code !== 0) throw linkFailure(`${wheel} cannot be unpacked: ${reason}`);
}
