import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { linkFailure } from './link-failure';
import { runProgram } from './run-program';

export const PACKAGES = ['tfjs-node-gpu', 'tfjs-node'] as const;

/** One of TensorFlow.js's packages for Node, without its scope. */
export type PackageName = (typeof PACKAGES)[number];

/**
 * Where a package is, as seen from the first of the folders that sees it; undefined if it is not installed. By default
 * the working directory's project comes before gradring's own folder.
 */
export function packageDirectory(name: PackageName, folders = [process.cwd(), __dirname]): string | undefined {
  try {
    return path.dirname(require.resolve(`@tensorflow/${name}/package.json`, { paths: folders }));
  } catch {
    return undefined;
  }
}

/**
 * Installs a package into the project around the working directory, without its install script, which would download a
 * libtensorflow of its own. The project's package.json stays as it is.
 *
 * @throws GradringError `ERR_TENSORFLOW` with npm's words.
 */
export async function installPackage(name: PackageName): Promise<string> {
  const project = projectDirectory(process.cwd());
  if (project === undefined) {
    throw linkFailure(`There is no package.json in ${process.cwd()} or above. Go to the project that uses gradring.`);
  }
  const wanted = `@tensorflow/${name}@${tfjsVersion()}`;
  const options = ['--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  const { code, reason } = await npm(['install', ...options, wanted], project);
  const directory = path.join(project, 'node_modules/@tensorflow', name);
  if (code !== 0 || !existsSync(directory)) throw linkFailure(`npm cannot install ${wanted} in ${project}: ${reason}`);
  return directory;
}

/** The nearest folder with a package.json, from the given one upwards; undefined if there is none. */
export function projectDirectory(folder: string): string | undefined {
  for (let directory = folder; ; directory = path.dirname(directory)) {
    if (existsSync(path.join(directory, 'package.json'))) return directory;
    if (directory === path.dirname(directory)) return undefined;
  }
}

/** That of the TensorFlow.js that gradring uses: another one's kernels would register elsewhere. */
function tfjsVersion(): string {
  const file = require.resolve('@tensorflow/tfjs/package.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

function npm(args: readonly string[], cwd: string) {
  const cli = npmFile('bin/npm-cli.js');
  return cli === undefined ? runProgram('npm', args, { cwd }) : runProgram(process.execPath, [cli, ...args], { cwd });
}

/** A file of the npm beside this Node, or of the one that started this process; undefined if neither is there. */
export function npmFile(name: string): string | undefined {
  const homes = [
    process.env['npm_execpath'] === undefined ? [] : [path.resolve(process.env['npm_execpath'], '../..')],
    path.resolve(process.execPath, '../../lib/node_modules/npm'),
    path.resolve(process.execPath, '../node_modules/npm'),
  ].flat();
  return homes.map(home => path.join(home, name)).find(existsSync);
}
