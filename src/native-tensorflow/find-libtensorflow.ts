import { existsSync } from 'node:fs';
import path from 'node:path';
import { inspect, type LibTensorFlow } from './libtensorflow';
import { linkFailure } from './link-failure';
import { fetchTensorFlow, installedTensorFlow } from './python-packages';

/** The usual places of an unpacked libtensorflow. */
const PREFIXES = ['/usr/local', '/usr', '/opt/libtensorflow', '/opt/tensorflow'];

/**
 * Finds a TensorFlow to link.
 *
 * @param from A directory (see {@link inspect}), or `auto`: then it looks in the Python environment and in the usual
 *   places, and otherwise downloads the wheel of tensorflow-cpu.
 * @throws GradringError `ERR_TENSORFLOW` if there is none.
 */
export async function findLibTensorFlow(from: string, say: (line: string) => void): Promise<LibTensorFlow> {
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
