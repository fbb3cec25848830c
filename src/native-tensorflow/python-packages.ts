import { mkdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { cacheDirectory } from './cache-directory';
import { linkFailure } from './link-failure';
import { listed } from './listed';
import { runProgram } from './run-program';

/** The Python to ask; an active environment comes first on the PATH. */
const PYTHON = process.platform === 'win32' ? 'python' : 'python3';

const FIND = `
import importlib.util
spec = importlib.util.find_spec('tensorflow')
print(spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else '')`;

/** Takes out of a wheel only what a C program is built with, and what tells of CUDA. */
const UNPACK = `
import sys, zipfile
wanted = ('tensorflow/include/', 'tensorflow/libtensorflow', 'tensorflow/python/platform/build_info.py')
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith(wanted)])`;

/** The `tensorflow` folder that Python would import; undefined if there is none, or no Python. */
export async function installedTensorFlow(): Promise<string | undefined> {
  const { code, stdout } = await runProgram(PYTHON, ['-c', FIND]);
  return code === 0 ? stdout.trim() || undefined : undefined;
}

/** Where {@link fetchTensorFlow} keeps what it fetched. */
export function fetchedTensorFlow(): string {
  return path.join(cacheDirectory(), 'tensorflow');
}

/**
 * Fetches the wheel of `tensorflow-cpu` from wherever pip is set up to look, and unpacks it. Once: later calls find it
 * there. What is half done is never taken for done.
 *
 * @returns the directory that holds it.
 * @throws GradringError `ERR_TENSORFLOW` with pip's words.
 */
export async function fetchTensorFlow(say: (line: string) => void): Promise<string> {
  const directory = fetchedTensorFlow();
  if (listed(directory).includes('tensorflow')) return directory;
  const aside = `${directory}.part-${process.pid}`;
  mkdirSync(aside, { recursive: true });
  try {
    say('Fetching tensorflow-cpu (about 270 MB) from where pip is set up to look …');
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
