import { resolve } from 'node:path';
import { tf } from './tfjs';

const SCHEME = 'file://';

/**
 * Makes `file://` URLs work for saving and loading models on backends that lack it, as tfjs-node does. If tfjs-node's
 * own handlers are there, or come later, they are used.
 */
export function registerFileHandlers(): void {
  const { io } = tf;
  if (io.getSaveHandlers(SCHEME).length === 0) io.registerSaveRouter(router(url => io.getSaveHandlers(url)));
  if (io.getLoadHandlers(SCHEME).length === 0) io.registerLoadRouter(router(url => io.getLoadHandlers(url)));
}

/** @param all All handlers that are registered for a URL. TensorFlow.js refuses a URL with two handlers. */
function router(all: (url: string) => tf.io.IOHandler[]): (url: string | string[]) => tf.io.IOHandler {
  const none = null as unknown as tf.io.IOHandler; // TensorFlow.js expects it, although its types do not say so
  let isLookingForOthers = false;
  return url => {
    if (isLookingForOthers || typeof url !== 'string' || !url.startsWith(SCHEME)) return none;
    isLookingForOthers = true;
    const others = all(url);
    isLookingForOthers = false;
    return others.length > 0 ? none : handlerFor(resolve(url.slice(SCHEME.length)));
  };
}

function handlerFor(path: string): tf.io.IOHandler {
  return {
    save: async artifacts => (await import('./save-model')).saveModel(path, artifacts),
    load: async () => (await import('./load-model')).loadModel(path),
  };
}
