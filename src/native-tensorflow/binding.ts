import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { attempt } from '../attempt';
import type { LibTensorFlow } from './libtensorflow';
import { npmFile } from './npm-package';
import { lastLines, linkFailure, runProgram } from './run-program';

/** What a link leaves in the folder of the package, to recognize and undo the link. */
export interface LinkRecord {
  readonly libTensorFlow: LibTensorFlow;
  /** Whether the package itself was installed for the link. */
  readonly installedPackage: boolean;
  /** Whether the build of the binding was completed. */
  readonly isComplete: boolean;
}

type NewRecord = Omit<LinkRecord, 'isComplete'>;

/** The folders that the install script of the package makes. They are renamed as long as there is a link. */
const MADE_BY_PACKAGE = ['deps', 'lib', 'build'];

const RECORD = 'gradring-link.json';

const ASIDE = '.before-gradring';

export function readRecord(packageDirectory: string): LinkRecord | undefined {
  return attempt(() => JSON.parse(readFileSync(path.join(packageDirectory, RECORD), 'utf8')) as LinkRecord);
}

/** Whether there is a binding, from gradring or from npm. */
export function hasBinding(packageDirectory: string): boolean {
  return existsSync(bindingFile(packageDirectory));
}

/**
 * Links headers and libraries into the package, and builds the binding against them. Earlier files are renamed, and get
 * their names back if the build fails.
 *
 * @throws GradringError `ERR_TENSORFLOW` with the error output of node-gyp.
 */
export async function buildBinding(packageDirectory: string, record: NewRecord): Promise<void> {
  undoBinding(packageDirectory);
  writeRecord(packageDirectory, { ...record, isComplete: false });
  for (const name of MADE_BY_PACKAGE) {
    const own = path.join(packageDirectory, name);
    if (existsSync(own)) renameSync(own, own + ASIDE);
  }
  const { includeDirectory, libraryDirectory } = record.libTensorFlow;
  const deps = path.join(packageDirectory, 'deps');
  mkdirSync(deps);
  symlinkSync(includeDirectory, path.join(deps, 'include'));
  // A link to the folder, not to its files: so the libraries find other libraries beside themselves ($ORIGIN), too.
  symlinkSync(libraryDirectory, path.join(deps, 'lib'));
  try {
    await runNodeGyp(packageDirectory, record.libTensorFlow);
    writeRecord(packageDirectory, { ...record, isComplete: true });
  } catch (error) {
    undoBinding(packageDirectory);
    throw error;
  }
}

/** Removes what {@link buildBinding} made, and restores what was there before. */
export function undoBinding(packageDirectory: string): void {
  if (readRecord(packageDirectory) === undefined) return;
  for (const name of MADE_BY_PACKAGE) {
    const own = path.join(packageDirectory, name);
    rmSync(own, { recursive: true, force: true });
    if (existsSync(own + ASIDE)) renameSync(own + ASIDE, own);
  }
  rmSync(path.join(packageDirectory, RECORD));
}

function writeRecord(packageDirectory: string, record: LinkRecord): void {
  writeFileSync(path.join(packageDirectory, RECORD), `${JSON.stringify(record, null, 2)}\n`);
}

async function runNodeGyp(
  packageDirectory: string,
  { library, framework, libraryDirectory }: LibTensorFlow,
): Promise<void> {
  const nodeGyp = npmFile('node_modules/node-gyp/bin/node-gyp.js');
  if (nodeGyp === undefined) {
    throw linkFailure(
      'node-gyp was not found. It comes with npm, but there is no npm beside this Node. Install npm, or run this command with npx.',
    );
  }
  const directory = path.dirname(bindingFile(packageDirectory));
  const options = {
    ...headers(),
    module: bindingFile(packageDirectory),
    module_name: 'tfjs_binding',
    module_path: directory,
    napi_version: process.versions.napi!,
    node_abi_napi: 'napi',
    napi_build_version: String(napiVersion(packageDirectory)),
    node_napi_label: path.basename(directory),
  };
  const args = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
  // The names that binding.gyp links, in a folder that only the linker uses.
  const names = mkdtempSync(path.join(tmpdir(), 'gradring-link-'));
  try {
    symlinkSync(path.join(libraryDirectory, library), path.join(names, 'libtensorflow.so'));
    symlinkSync(path.join(libraryDirectory, framework), path.join(names, 'libtensorflow_framework.so'));
    const env = { LDFLAGS: `-L${names} ${process.env['LDFLAGS'] ?? ''}`.trim() };
    const built = await runProgram(process.execPath, [nodeGyp, 'rebuild', ...args], { cwd: packageDirectory, env });
    if (built.code === 0 && hasBinding(packageDirectory)) return;
    throw linkFailure(
      `node-gyp cannot build the binding. It needs python3, make, a C++ compiler (Debian: apt-get install python3 make g++), and the headers of Node.\n${lastLines(withoutNoise(built.stderr))}`,
    );
  } finally {
    rmSync(names, { recursive: true, force: true });
  }
}

/** Removes lines in which node-gyp describes itself and the machine. They do not say why a build fails. */
function withoutNoise(stderr: string): string {
  const isNoise = /^gyp (info|ERR! (stack at|System|command|cwd|node |node-gyp|\$npm|not ok))/;
  return stderr.split('\n').filter(line => line.trim() !== '' && !isNoise.test(line)).join('\n'); // prettier-ignore
}

/** The headers that came with this Node, if there are any. Otherwise node-gyp downloads them. */
function headers(): { nodedir?: string } {
  const prefix = path.resolve(process.execPath, '../..');
  return existsSync(path.join(prefix, 'include/node/node_api.h')) ? { nodedir: prefix } : {};
}

function bindingFile(packageDirectory: string): string {
  return path.join(packageDirectory, `lib/napi-v${napiVersion(packageDirectory)}/tfjs_binding.node`);
}

/**
 * The newest Node-API version that both the package and this Node support. The package looks for its binding under this
 * version.
 */
function napiVersion(packageDirectory: string): number {
  const description = JSON.parse(readFileSync(path.join(packageDirectory, 'package.json'), 'utf8')) as {
    binary: { napi_versions: number[] };
  };
  const ours = Number(process.versions.napi);
  return Math.max(...description.binary.napi_versions.filter(version => version <= ours));
}
