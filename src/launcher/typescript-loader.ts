import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { invalidArgument } from '../errors';
import { findPackage, pathsTo, refusalOf } from '../find-package';
import { splitNodeOptions } from './node-options';

/** Node 22.6 to 22.17, and 23.0 to 23.5, run TypeScript if they are given this option. Later ones need none. */
const STRIP_TYPES = '--experimental-strip-types';

/** Options that turn this on or off. */
const STRIPS = /^--(no-)?(experimental-)?(strip|transform)-types$/;

/** Options that load a module before the script. Their value is after `=`, or is the next argument. */
const PRELOADS = /^(?:--import|--require|-r|--loader|--experimental-loader)(?:=(.*))?$/;

/** What Yarn's Plug'n'Play loads into each process, to find packages. */
const PLUG_N_PLAY = /[\\/]\.pnp\.(cjs|loader\.mjs)$/;

/** Packages that make Node run TypeScript. */
const LOADERS =
  /^(@swc|@swc-node|@babel|@oxc-node|@esbuild-kit|amaro|esbuild|jiti|sucrase|swc|ts-blank-space|ts-node|tsimp|tsm|tsx)\b/;

/** What the Node that runs this process can do. */
export interface NodeAbilities {
  readonly version: string;
  /** It runs TypeScript. */
  readonly runsTypeScript: boolean;
  /** It does so with {@link STRIP_TYPES}. */
  readonly stripsTypes: boolean;
}

/**
 * The options that Node needs to run this script if it is TypeScript: none if Node runs it by itself, or if the given
 * options name a loader already; else one for `tsx` or for `ts-node`, as the script's project has it.
 *
 * @param script Absolute.
 * @param given Options for Node that the script is started with anyway.
 * @throws GradringError `ERR_INVALID_ARGUMENT` if there is nothing that can run it.
 */
export function typescriptOptions(
  script: string,
  given: readonly string[],
  env: NodeJS.ProcessEnv,
  node: NodeAbilities = nodeAbilities(),
): string[] {
  if (!/\.[cm]?ts$/.test(script)) return [];
  const options = [...given, ...splitNodeOptions(env['NODE_OPTIONS'] ?? '', 'NODE_OPTIONS')];
  const preloads = options.flatMap((option, i) => {
    const match = PRELOADS.exec(option);
    const module = match && (match[1] ?? options[i + 1] ?? '');
    return module === null || PLUG_N_PLAY.test(module) ? [] : [module];
  });
  if (preloads.some(isLoader)) return [];

  const strips = options.findLast(option => STRIPS.test(option));
  if (strips === undefined && node.runsTypeScript) return [];
  if (strips === undefined && node.stripsTypes) return [STRIP_TYPES];
  if (strips !== undefined && !strips.startsWith('--no-')) return [];

  const tsx = findPackage('tsx', [script]);
  const tsNode = isModule(script) ? {} : findPackage('ts-node/register', [script]); // it loads no ES modules that way
  const loader = tsx.file ?? tsNode.file;
  if (loader !== undefined) {
    requireOwnSettings(script, loader === tsx.file, env);
    return loader === tsx.file ? ['--import', pathToFileURL(loader).href] : ['--require', loader];
  }
  if (preloads.length > 0) return []; // one of them may be a loader of the user's own
  const why = tsx.refused ?? tsNode.refused ?? 'no loader for it was found';
  throw invalidArgument(
    `${script} is TypeScript, which Node.js ${node.version} cannot run by itself, and ${why}. ` +
      'Install one (npm install --save-dev tsx), or use Node.js 22.18 or newer, or compile the script to JavaScript first.',
  );
}

function nodeAbilities(): NodeAbilities {
  const { typescript } = process.features as { typescript?: string | false };
  // The ranks do not get the options of this process.
  const isByOption = process.execArgv.some(option => STRIPS.test(option));
  const isBuiltIn = (process.config.variables as { node_use_amaro?: boolean }).node_use_amaro !== false;
  return {
    version: process.version,
    runsTypeScript: Boolean(typescript) && !isByOption,
    stripsTypes: isBuiltIn && process.allowedNodeEnvironmentFlags.has(STRIP_TYPES),
  };
}

/** @param module As an option has it: a package's name, or a path or URL within the package. */
function isLoader(module: string): boolean {
  return LOADERS.test(module.replace(/^.*[\\/]node_modules[\\/]/, ''));
}

/**
 * Refuses to start a loader that would run another user's code: both read the settings that are nearest to the working
 * directory, which may name code, and tsx runs what it finds in its folder of compiled files.
 */
function requireOwnSettings(script: string, isTsx: boolean, env: NodeJS.ProcessEnv): void {
  const settings = pathsTo(process.cwd())
    .map(folder => path.join(folder, 'tsconfig.json'))
    .findLast(file => existsSync(file));
  const temporary = env['TMPDIR'] || env['TMP'] || env['TEMP'] || '/tmp';
  const compiled = path.join(temporary, `tsx-${process.geteuid?.()}`);
  const read = [
    [settings, isTsx ? 'TSX_TSCONFIG_PATH' : 'TS_NODE_PROJECT', 'Start in a folder of your own'],
    [isTsx ? compiled : undefined, 'TSX_DISABLE_CACHE', 'Set TMPDIR to a folder of your own'],
  ] as const;
  for (const [file, instead, advice] of read) {
    if (file === undefined || env[instead]) continue;
    const refusal = refusalOf(file, script);
    if (refusal === undefined) continue;
    const loader = isTsx ? 'tsx' : 'ts-node';
    throw invalidArgument(
      `${script} is TypeScript, and ${loader} would obey what is not yours: ${refusal}. ${advice}.`,
    );
  }
}

/** Whether Node takes a TypeScript file for an ES module: by its name, or else by the package that it is in. */
function isModule(script: string): boolean {
  if (!script.endsWith('.ts') || /\.[cm]ts$/.test(script)) return script.endsWith('.mts');
  for (let folder = path.dirname(script); ; folder = path.dirname(folder)) {
    try {
      const { type } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as { type?: unknown };
      return type === 'module';
    } catch {
      if (folder === path.dirname(folder)) return false;
    }
  }
}
