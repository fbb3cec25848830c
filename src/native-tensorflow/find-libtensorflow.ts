import { existsSync } from 'node:fs';
import path from 'node:path';
import { inspect, type LibTensorFlow } from './libtensorflow';
import { linkFailure } from './link-failure';
import { fetchedTensorFlow, fetchTensorFlow, installedTensorFlow } from './python-packages';

/** Where an unpacked libtensorflow is usually put. */
const PREFIXES = ['/usr/local', '/usr', '/opt/libtensorflow', '/opt/tensorflow'];

/**
 * Finds a TensorFlow to link.
 *
 * @param from A directory (see {@link inspect}); or `auto`: that of the Python environment, of the usual places, or the
 *   wheel of tensorflow-cpu, which is fetched.
 * @throws GradringError `ERR_TENSORFLOW` if there is none.
 */
export async function findLibTensorFlow(from: string, say: (line: string) => void): Promise<LibTensorFlow> {
  if (from !== 'auto') return inspectNamed(path.resolve(from));
  const ofPython = await installedTensorFlow();
  const places = [...(ofPython === undefined ? [] : [ofPython]), ...PREFIXES, fetchedTensorFlow()];
  for (const place of places) {
    const found = inspect(place);
    if (found !== undefined) return found;
  }
  const fetched = await fetchTensorFlow(say).catch((error: Error) => {
    const tried = places.join(', ');
    throw linkFailure(
      `No TensorFlow was found in ${tried}, and none can be fetched. ${error.message}\n` +
        'Install one (pip install tensorflow-cpu; with a GPU: pip install "tensorflow[and-cuda]"), or unpack libtensorflow, and name its directory by --from.',
    );
  });
  return inspectNamed(fetched);
}

function inspectNamed(directory: string): LibTensorFlow {
  const found = inspect(directory);
  if (found !== undefined) return found;
  if (!existsSync(directory)) throw linkFailure(`${directory} does not exist.`);
  const words = `${directory} holds no TensorFlow to build against: it needs include/tensorflow/c/eager/c_api.h, and libtensorflow (or libtensorflow_cc) and libtensorflow_framework beside it or in lib. A Python environment with tensorflow or tensorflow-cpu in it has them, and so has an unpacked libtensorflow.`;
  throw linkFailure(words);
}
