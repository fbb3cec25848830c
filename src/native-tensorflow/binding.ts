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
import type { LibTensorFlow } from './libtensorflow';
import { linkFailure } from './link-failure';
import { npmFile } from './npm-package';
import { lastLines, runProgram } from './run-program';

/** What a link leaves beside the package's own files, to be known again and undone. */
export interface LinkRecord {
  readonly libTensorFlow: LibTensorFlow;
  /** Whether the package itself was installed for the link. */
  readonly installedPackage: boolean;
  /** Whether the binding was built to its end. */
  readonly isComplete: boolean;
}

type NewRecord = Omit<LinkRecord, 'isComplete'>;

/** What the package's own install script would have made; put aside while a link stands. */
const MADE_BY_PACKAGE = ['deps', 'lib', 'build'];

const RECORD = 'gradring-link.json';

const ASIDE = '.before-gradring';

export function readRecord(packageDirectory: string): LinkRecord | undefined {
  try {
    return JSON.parse(readFileSync(path.join(packageDirectory, RECORD), 'utf8')) as LinkRecord;
  } catch {
    return undefined;
  }
}

/** Whether a binding is there, of whatever making. */
export function hasBinding(packageDirectory: string): boolean {
  return existsSync(bindingFile(packageDirectory));
}

/**
 * Stages headers and libraries by link, and builds the binding against them. What was there before is put aside, and
 * comes back if that fails.
 *
 * @throws GradringError `ERR_TENSORFLOW` with the words of node-gyp.
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
  // The folder itself, not its files: what the libraries look for beside themselves ($ORIGIN) is then found too.
  symlinkSync(libraryDirectory, path.join(deps, 'lib'));
  try {
    await runNodeGyp(packageDirectory, record.libTensorFlow);
    writeRecord(packageDirectory, { ...record, isComplete: true });
  } catch (error) {
    undoBinding(packageDirectory);
    throw error;
  }
}

/** Takes away what {@link buildBinding} made, and puts back what was there before. */
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
      'node-gyp was not found: it comes with npm, and no npm is beside this Node. Install npm, or run this by npx.',
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
  // The names that binding.gyp links by, in a folder that only the linker sees.
  const names = mkdtempSync(path.join(tmpdir(), 'gradring-link-'));
  try {
    symlinkSync(path.join(libraryDirectory, library), path.join(names, 'libtensorflow.so'));
    symlinkSync(path.join(libraryDirectory, framework), path.join(names, 'libtensorflow_framework.so'));
    const env = { LDFLAGS: `-L${names} ${process.env['LDFLAGS'] ?? ''}`.trim() };
    const built = await runProgram(process.execPath, [nodeGyp, 'rebuild', ...args], { cwd: packageDirectory, env });
    if (built.code === 0 && hasBinding(packageDirectory)) return;
    throw linkFailure(
      `node-gyp cannot build the binding. It needs python3, make and a C++ compiler (Debian: apt-get install python3 make g++), and the headers of Node.\n${lastLines(withoutNoise(built.stderr))}`,
    );
  } finally {
    rmSync(names, { recursive: true, force: true });
  }
}

/** What node-gyp says of itself and its machine tells nothing of why a build fails. */
function withoutNoise(stderr: string): string {
  const isNoise = /^gyp (info|ERR! (stack at|System|command|cwd|node |node-gyp|\$npm|not ok))/;
  return stderr.split('\n').filter(line => line.trim() !== '' && !isNoise.test(line)).join('\n'); // prettier-ignore
}

/** The headers that came with this Node, if they did; else node-gyp downloads them. */
function headers(): { nodedir?: string } {
  const prefix = path.resolve(process.execPath, '../..');
  return existsSync(path.join(prefix, 'include/node/node_api.h')) ? { nodedir: prefix } : {};
}

function bindingFile(packageDirectory: string): string {
  return path.join(packageDirectory, `lib/napi-v${napiVersion(packageDirectory)}/tfjs_binding.node`);
}

/**
 * The newest Node-API version that both the package and this Node have, which is the one that it looks for at its
 * start.
 */
function napiVersion(packageDirectory: string): number {
  const description = JSON.parse(readFileSync(path.join(packageDirectory, 'package.json'), 'utf8')) as {
    binary: { napi_versions: number[] };
  };
  const ours = Number(process.versions.napi);
  return Math.max(...description.binary.napi_versions.filter(version => version <= ours));
}
