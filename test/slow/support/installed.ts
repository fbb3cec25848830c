import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

const ROOT = path.join(__dirname, '../../..');
const run = promisify(execFile);

/** The package as it would be published. */
export interface Packed {
  readonly archive: string;
  readonly files: readonly string[];
}

/**
 * Where the package, a project that has it, a TensorFlow and other versions of Node are cached. All tests of
 * `npm run test:slow` share it, so that they are made or fetched once; a test that runs alone has one in its folder.
 */
export function sharedCache(folder: string): string {
  return process.env['TEST_CACHE'] ?? path.join(folder, 'cache');
}

/**
 * A folder of the {@link sharedCache}. The first test that needs it makes it in a folder of its own, so that the others
 * find all of it or nothing.
 */
async function once(folder: string, name: string, make: (own: string) => Promise<void>): Promise<string> {
  const shared = path.join(sharedCache(folder), name);
  if (existsSync(shared)) return shared;
  const own = path.join(folder, `own ${name}`);
  mkdirSync(own);
  await make(own);
  mkdirSync(sharedCache(folder), { recursive: true });
  if (!existsSync(shared)) renameSync(own, shared); // another test may have been faster
  return shared;
}

/** Packs this checkout as it is built. */
export async function pack(folder: string): Promise<Packed> {
  const shared = await once(folder, 'package', async own => {
    // Without its scripts: they would build anew, and take dist/ from under the other tests.
    const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', own], {
      cwd: ROOT,
    });
    writeFileSync(path.join(own, 'packed.json'), stdout);
  });
  const packed = readFileSync(path.join(shared, 'packed.json'), 'utf8');
  const [{ filename, files }] = JSON.parse(packed) as [{ filename: string; files: { path: string }[] }];
  return { archive: path.join(shared, filename), files: files.map(file => file.path) };
}

/** What {@link install} installs, and how. */
export interface InstallOptions {
  /** Default: npm. */
  readonly manager?: 'npm' | 'pnpm';
  /** What to install; nothing for all of package.json. */
  readonly packages?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

const COMMANDS = {
  npm: ['npm', 'install', '--prefer-offline', '--no-audit', '--no-fund'],
  pnpm: ['npx', '--yes', 'pnpm@10', 'install', '--prefer-offline'],
} as const;

/** Why tests cannot install packages of the registry, or undefined. */
export function registryObstacle(): string | undefined {
  const args = ['view', 'zeromq', 'version', '--fetch-retries=1', '--fetch-timeout=20000'];
  const { status, stderr } = spawnSync('npm', args, { encoding: 'utf8' });
  return status === 0 ? undefined : `the npm registry cannot be reached: ${stderr.split('\n', 1)[0]}`;
}

/**
 * Why there is no TensorFlow that tfjs-node could be linked to, here or in the index of Python's packages. Undefined if
 * there is one. Also CI may have none.
 */
export function libraryObstacle(): string | undefined {
  if (spawnSync('python3', ['-c', 'import tensorflow']).status === 0) return undefined;
  const { status, stderr } = spawnSync('python3', ['-m', 'pip', 'index', 'versions', 'tensorflow-cpu'], {
    encoding: 'utf8',
  });
  return status === 0 ? undefined : `there is no TensorFlow, and pip knows none: ${stderr?.trim().split('\n').at(-1)}`;
}

/** Has a package manager install packages into a project. */
export async function install(
  project: string,
  { manager = 'npm', packages = [], args = [], env = process.env }: InstallOptions = {},
): Promise<void> {
  const [command, ...fixed] = COMMANDS[manager];
  try {
    await run(command, [...fixed, ...args, ...packages], { cwd: project, env, timeout: 240_000 });
  } catch (error) {
    const { stderr = '', stdout = '' } = error as { stderr?: string; stdout?: string };
    throw new Error(`${manager} fails in ${project}: ${stdout}${stderr}`, { cause: error });
  }
}

/** Makes a project that has nothing installed. */
export function makeProject(folder: string, dependencies: Readonly<Record<string, string>> = {}): string {
  mkdirSync(folder, { recursive: true });
  // The package `node` gets its program in its install script.
  const description = { private: true, dependencies, allowScripts: { node: true } };
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify(description));
  return folder;
}

/** A project in a folder that has installed the package, without what is optional. It is a {@link copyProject}. */
export async function projectWithPackage(folder: string, name: string): Promise<string> {
  const { archive } = await pack(folder);
  const shared = await once(folder, 'project', own =>
    install(makeProject(own), { packages: [archive], args: ['--omit=optional'] }),
  );
  return copyProject(shared, path.join(folder, name));
}

/** Copies a project. The files of both are the same on the disk: replace them, and do not write into them. */
export async function copyProject(project: string, copy: string): Promise<string> {
  await run('cp', ['-al', project, copy]);
  return copy;
}

/** The versions of the tfjs-cores that are on the disk of a project. */
export async function coresIn(project: string): Promise<string[]> {
  const { stdout } = await run('find', [project, '-path', '*/@tensorflow/tfjs-core/package.json']);
  const files = stdout.trim().split('\n');
  return files.map(file => (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version);
}

/**
 * The ranges in `engines` of package.json, such as `^20.15`. Together they are the versions of Node that are supported.
 */
export function nodeRanges(): string[] {
  const { engines } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
    engines: { node: string };
  };
  return engines.node.split(' || ');
}

/** The major versions of Node that are tested, but not the one that runs the tests. */
export function otherNodes(): string[] {
  const [own] = process.versions.node.split('.');
  return nodeRanges()
    .map(range => /\d+/.exec(range)![0])
    .filter(major => major !== own);
}

/**
 * Fetches a Node, such as `22` or `22.2`: the newest of that name that the npm package `node` has.
 *
 * @returns The variables with which programs run on it.
 */
export async function fetchNode(folder: string, version: string): Promise<NodeJS.ProcessEnv> {
  const project = await once(folder, `node ${version}`, own =>
    install(makeProject(own), { packages: [`node@${version}`] }),
  );
  const programs = path.join(project, 'node_modules/node/bin');
  return { ...process.env, PATH: `${programs}${path.delimiter}${process.env['PATH']}` };
}
