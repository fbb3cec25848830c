import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { findPackage, projectOf, refusalOf } from '../find-package';
import { linkFailure, runProgram } from './run-program';

export const PACKAGES = ['tfjs-node-gpu', 'tfjs-node'] as const;

/** A package of TensorFlow.js for Node, without its scope. */
export type PackageName = (typeof PACKAGES)[number];

/** Where a package is. Neither field is there if it is not installed. */
export interface PackagePlace {
  readonly directory?: string;
  /** Why one that is there is not used. */
  readonly refused?: string;
}

/**
 * The folder of a package, from the first of some places where {@link findPackage} finds it. By default the project of
 * the working directory comes before that of gradring.
 */
export function packageDirectory(name: PackageName, places = [process.cwd(), __filename]): PackagePlace {
  const { file, ...rest } = findPackage(`@tensorflow/${name}/package.json`, places);
  return file === undefined ? rest : { directory: path.dirname(file) };
}

/**
 * Installs a package into the project of the working directory, without its install script, which would download
 * another libtensorflow. Nothing else in the project changes: npm works in a folder of its own, because in the project
 * it would also remove what package.json does not name, such as the other package, and install nothing that
 * package.json names as an optional peer.
 *
 * @throws GradringError `ERR_TENSORFLOW` with the error output of npm.
 */
export async function installPackage(name: PackageName): Promise<string> {
  const project = projectOf(process.cwd());
  if (project === undefined) {
    throw linkFailure(
      `There is no package.json of yours in ${process.cwd()} or above. Go to the project that uses gradring.`,
    );
  }
  const refusal = refusalOf(project); // the settings of npm are in the same folder
  if (refusal !== undefined) throw linkFailure(`npm installs nothing in ${project}, because ${refusal}.`);
  const wanted = `@tensorflow/${name}@${tfjsVersion()}`;
  const modules = path.join(project, 'node_modules');
  const directory = path.join(modules, '@tensorflow', name);
  mkdirSync(path.dirname(directory), { recursive: true });
  const staging = mkdtempSync(path.join(modules, '.gradring-'));
  try {
    // The package demands TensorFlow.js, but must use the project's. So npm fetches something small in its place.
    const description = { private: true, overrides: { '@tensorflow/tfjs': 'npm:seedrandom@^3.0.5' } };
    writeFileSync(path.join(staging, 'package.json'), JSON.stringify(description));
    const settings = path.join(project, '.npmrc');
    if (existsSync(settings)) copyFileSync(settings, path.join(staging, '.npmrc'));
    const options = [
      '--ignore-scripts',
      '--omit=optional',
      '--omit=peer',
      '--no-audit',
      '--no-fund',
      '--loglevel=error',
    ];
    const { code, reason } = await npm(['install', '--prefix', staging, ...options, wanted], staging);
    const installed = path.join(staging, 'node_modules');
    const own = path.join(installed, '@tensorflow', name);
    if (code !== 0 || !existsSync(own)) throw linkFailure(`npm cannot install ${wanted} in ${project}: ${reason}`);
    renameSync(own, directory);
    rmSync(path.join(installed, '@tensorflow'), { recursive: true });
    renameSync(installed, path.join(directory, 'node_modules'));
    return directory;
  } finally {
    rmSync(staging, { recursive: true });
  }
}

/** The version of gradring's TensorFlow.js. Kernels of another version would be registered in another copy of it. */
function tfjsVersion(): string {
  const file = require.resolve('@tensorflow/tfjs/package.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

function npm(args: readonly string[], cwd: string) {
  const cli = npmFile('bin/npm-cli.js');
  return cli === undefined ? runProgram('npm', args, { cwd }) : runProgram(process.execPath, [cli, ...args], { cwd });
}

/** A file of the npm that started this process, or of the npm beside this Node; undefined if there is neither. */
export function npmFile(name: string): string | undefined {
  const homes = [
    process.env['npm_execpath'] === undefined ? [] : [path.resolve(process.env['npm_execpath'], '../..')],
    path.resolve(process.execPath, '../../lib/node_modules/npm'),
    path.resolve(process.execPath, '../node_modules/npm'),
  ].flat();
  return homes.map(home => path.join(home, name)).find(existsSync);
}
