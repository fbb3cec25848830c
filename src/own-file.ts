import { existsSync } from 'node:fs';
import path from 'node:path';
import { GradringError } from './errors';

/** The folder of gradring's code, `dist`. In a bundle it is another one, or none: an ES module has no `__dirname`. */
export const OWN_FOLDER = typeof __dirname === 'string' ? __dirname : '';

/** No other program has this file beside its code. A bundle may well have a `cli.js`. */
const OWN_MARK = 'kernels/kernels.wasm';

/**
 * Finds a file of gradring that is not loaded as a module of this thread: the program of a thread or a process,
 * WebAssembly, package.json. A bundler does not see that gradring needs it.
 *
 * @param name Its path from the folder of the code: `kernels/kernels.wasm`.
 * @throws GradringError `ERR_BUNDLED` if it is not there.
 */
export function ownFile(name: string): string {
  const file = path.join(OWN_FOLDER, name);
  const isOwn = OWN_FOLDER !== '' && existsSync(path.join(OWN_FOLDER, OWN_MARK));
  if (isOwn && existsSync(file)) return file;
  const words = `gradring does not find its own file ${file}. It cannot be part of a bundle, because it starts threads and loads WebAssembly from files beside its code. Leave it outside: esbuild --external:gradring, or externals: { gradring: 'commonjs gradring' } for webpack; install it where the bundle runs. If this is no bundle, install gradring again.`;
  throw new GradringError('ERR_BUNDLED', words);
}
