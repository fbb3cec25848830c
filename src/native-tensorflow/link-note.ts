import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { projectOf, refusalOf } from '../find-package';
import type { PackageName } from './npm-package';

/** Remembers a link outside of node_modules, because `npm ci` and `npm install` silently remove the link itself. */
export interface LinkNote {
  /** The folder of the project with the link. */
  readonly project: string;
  /** The value of `--from`: an absolute path, or `auto`. */
  readonly from: string;
}

/** Writes the note of a link in the project of the working directory. */
export function writeNote(name: PackageName, from: string): void {
  const project = projectOf(process.cwd());
  if (project === undefined) return;
  const note: LinkNote = { project, from: from === 'auto' ? from : path.resolve(from) };
  try {
    const file = noteFile(project, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, `${JSON.stringify(note)}\n`);
  } catch {
    // The link works without its note: for example, the home directory may be read-only.
  }
}

/** The note for the first of the places whose project has one. Never throws. */
export function readNote(name: PackageName, places: readonly string[]): LinkNote | undefined {
  for (const place of places) {
    try {
      const project = projectOf(place);
      if (project === undefined) continue;
      const file = noteFile(project, name);
      if (refusalOf(file) !== undefined) continue; // it becomes a command that users copy
      const note = JSON.parse(readFileSync(file, 'utf8')) as LinkNote;
      if (note.project === project && typeof note.from === 'string') return note;
    } catch {
      // There is no note, or it cannot be read.
    }
  }
  return undefined;
}

/** Removes the note for the project of the working directory. Returns whether there was one. */
export function removeNote(name: PackageName): boolean {
  const note = readNote(name, [process.cwd()]);
  if (note === undefined) return false;
  rmSync(noteFile(note.project, name));
  return true;
}

/** The command that links a package, to type in the working directory. A note repeats its link. */
export function linkCommandFor(name: PackageName, note?: LinkNote): string {
  const command = `npx gradring link-tensorflow --package ${name}`;
  if (note === undefined) return command;
  const full = note.from === 'auto' ? command : `${command} --from ${quoted(note.from)}`;
  return note.project === projectOf(process.cwd()) ? full : `cd ${quoted(note.project)} && ${full}`;
}

/** The folder for files of link-tensorflow outside of projects. */
export function cacheDirectory(): string {
  return path.join(process.env['XDG_CACHE_HOME'] || path.join(homedir(), '.cache'), 'gradring');
}

function noteFile(project: string, name: PackageName): string {
  const hash = createHash('sha256').update(project).digest('hex').slice(0, 16);
  return path.join(cacheDirectory(), 'links', hash, `${name}.json`);
}

/** Quoted for a shell, if necessary. */
function quoted(text: string): string {
  return /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
