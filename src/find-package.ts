import { existsSync, lstatSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

/** What {@link findPackage} has found. Neither field is there if the package is not installed. */
export interface FoundPackage {
  /** The file to load. */
  readonly file?: string;
  /** Why a package that is there is not used, to be read within a sentence. */
  readonly refused?: string;
}

/** Where the search for a package begins. */
interface Place {
  readonly folder: string;
  /** Whose files may be used. Undefined on Windows, where the owner of a file is not known. */
  readonly users: readonly number[] | undefined;
}

/**
 * Finds a file of a package that gradring uses if it is installed, although no program has asked for it. Node would
 * look in `node_modules` of every folder above. Other users may write to some of these, such as /tmp, and what they put
 * there would run as this user. So this looks only up to the project, or up to the workspace that the project is part
 * of, and refuses what other users can have made: what belongs neither to root, nor to this user, nor to the owner of
 * gradring or of the program, whose code runs anyway; and what everybody may write to. `NODE_PATH` is the user's own
 * word: what is there is not checked. docs/security.md says the same to users.
 *
 * @param request As for `require`: `tsx`, `ts-node/register`.
 * @param places Programs, or folders of which a program could be, the first one first.
 */
export function findPackage(request: string, places: readonly string[]): FoundPackage {
  let refused: string | undefined;
  for (const place of places.map(placeOf)) {
    for (const modules of modulesOf(place)) {
      const found = findIn(modules, request, place);
      if (found.file !== undefined) return found;
      refused ??= found.refused;
    }
    const plugged = process.versions['pnp'] === undefined ? {} : findPlugged(request, place);
    if (plugged.file !== undefined) return plugged;
    refused ??= plugged.refused;
  }
  for (const modules of (process.env['NODE_PATH'] ?? '').split(path.delimiter).filter(Boolean)) {
    const found = findIn(path.resolve(modules), request);
    if (found.file !== undefined) return found;
  }
  return refused === undefined ? {} : { refused };
}

/**
 * The project of a program, or of a folder: the nearest folder with a package.json, or for what is in `node_modules`
 * the folder that has this `node_modules`. Undefined if there is none. A package.json of another user does not count.
 */
export function projectOf(place: string): string | undefined {
  return projectAround(placeOf(place));
}

function projectAround({ folder, users }: Place): string | undefined {
  const installed = /^(.*?[\\/])node_modules(?:[\\/]|$)/.exec(folder);
  if (installed !== null) return path.resolve(installed[1]!);
  let marked: string | undefined;
  for (const each of pathsTo(folder).reverse()) {
    const manifest = readManifest(each, users);
    if (manifest !== undefined && isOfProject(manifest)) return each;
    if (manifest !== undefined) marked ??= each;
  }
  return marked;
}

/**
 * Why another user may have made, or may change, what is at this path; to be read within a sentence. Undefined if no
 * other user can, or if nothing is there.
 *
 * @param program The files of its owner may be used, too.
 */
export function refusalOf(file: string, program = __filename): string | undefined {
  return existsSync(file) ? refusalAt(file, placeOf(program).users) : undefined;
}

/** @param isWay The path is only passed through, so that others may add to it, but not rename what is there: /tmp. */
function refusalAt(file: string, users: Place['users'], isWay = false): string | undefined {
  if (users === undefined) return undefined;
  const found = lstatSync(file);
  if (!users.includes(found.uid)) return `${file} belongs to the user ${found.uid}, and not to you or to root`;
  const isOpen = (found.mode & 0o002) !== 0 && !found.isSymbolicLink();
  return isOpen && !(isWay && (found.mode & 0o1000) !== 0) ? `everybody may write to ${file}` : undefined;
}

/** This user, root, and the owner of gradring. */
function ownUsers(): Place['users'] {
  const user = process.getuid?.();
  return user === undefined ? undefined : [user, 0, statSync(__filename).uid];
}

function placeOf(given: string): Place {
  const users = ownUsers();
  try {
    const real = realpathSync(given);
    const found = statSync(real);
    if (found.isDirectory()) return { folder: real, users }; // its owner may be anybody
    return { folder: path.dirname(real), users: users && [...users, found.uid] };
  } catch {
    return { folder: path.dirname(path.resolve(given)), users }; // `node train`, for train.js
  }
}

/** The folders `node_modules`, whether they are there or not, from that of a place up to that of its project. */
function modulesOf(place: Place): string[] {
  const { folder, users } = place;
  const project = projectAround(place);
  const top = project === undefined ? path.parse(folder).root : (workspaceOf(project, users) ?? project);
  const folders = pathsTo(folder).filter(each => isWithin(each, top) && path.basename(each) !== 'node_modules');
  return folders.reverse().map(each => path.join(each, 'node_modules'));
}

/** The root of the workspaces of npm, yarn or pnpm above a project. It has the packages that its projects share. */
function workspaceOf(project: string, users: Place['users']): string | undefined {
  const above = pathsTo(path.dirname(project)).reverse();
  return above.find(
    each =>
      readManifest(each, users)?.['workspaces'] !== undefined ||
      isTrustedFile(path.join(each, 'pnpm-workspace.yaml'), users),
  );
}

/** A folder's package.json. Undefined if there is none that may be read; empty if it is damaged. */
function readManifest(folder: string, users: Place['users']): Readonly<Record<string, unknown>> | undefined {
  const file = path.join(folder, 'package.json');
  if (!isTrustedFile(file, users)) return undefined;
  try {
    return Object(JSON.parse(readFileSync(file, 'utf8'))) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** Whether this is an ordinary file of these users. What is not may be a pipe, which would be read without an end. */
function isTrustedFile(file: string, users: Place['users']): boolean {
  try {
    const found = statSync(file);
    return found.isFile() && (users?.includes(found.uid) ?? true);
  } catch {
    return false;
  }
}

/** A package.json with none of these only tells Node whether the files beside it are ES modules. */
function isOfProject(manifest: Readonly<Record<string, unknown>>): boolean {
  return Object.keys(manifest).some(key => /^(name|workspaces|\w*dependencies)$/i.test(key));
}

/** @param place Says whose files may be used. Without it, all may. */
function findIn(modules: string, request: string, place?: Place): FoundPackage {
  const [name] = /^(?:@[^/]+\/)?[^/]+/.exec(request)!;
  const home = path.join(modules, name);
  try {
    const real = realpathSync(home);
    // Checked before Node reads anything there. The folder may be a link, as those of pnpm are.
    const links = pathsTo(home).filter(each => isWithin(each, modules));
    const found = place && refusalAlong([...links, ...pathsTo(real)], real, place);
    if (found !== undefined) return refusalFor(home, found, modules);
    const file = createRequire(path.join(modules, '../program.js')).resolve(request);
    if (!isWithin(realpathSync(file), real)) return {}; // the package here has no such file, and Node has found one elsewhere
    const within = place && refusalAlong(pathsTo(realpathSync(file)), real, place);
    return within === undefined ? { file } : refusalFor(home, within, modules);
  } catch {
    return {};
  }
}

/** What Yarn's Plug'n'Play has instead of `node_modules`: its own table says where a package is. */
function findPlugged(request: string, place: Place): FoundPackage {
  try {
    const file = createRequire(path.join(place.folder, 'program.js')).resolve(request);
    const found = refusalAlong(pathsTo(file), file, place);
    return found === undefined ? { file } : { refused: `${file} is not used, because ${found}` };
  } catch {
    return {};
  }
}

/** The first refusal on the way to a package. Who can change what is above the place can change the program itself. */
function refusalAlong(paths: readonly string[], packageFolder: string, { folder, users }: Place): string | undefined {
  for (const each of paths) {
    if (isWithin(folder, each)) continue;
    const isWay = !isWithin(each, packageFolder) && !/[\\/]node_modules([\\/]|$)/.test(each);
    const refusal = refusalAt(each, users, isWay);
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}

function refusalFor(home: string, why: string, modules: string): FoundPackage {
  return { refused: `${home} is not used, because ${why} (set NODE_PATH=${modules} if you trust it)` };
}

/** All folders on the way to a path, from the root on, and the path itself. */
export function pathsTo(file: string): string[] {
  const above = path.dirname(file);
  return above === file ? [file] : [...pathsTo(above), file];
}

function isWithin(file: string, folder: string): boolean {
  const relative = path.relative(folder, file);
  return relative !== '..' && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative);
}
