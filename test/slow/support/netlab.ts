import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { cleanUp, Program, ROOT } from '../../launcher/support';

export const NETLAB = path.join(ROOT, 'scripts/netlab');

const labs = new Set<string>();

/** A lab's name that no other test process uses, for {@link removeLabs}. `last` is one character. */
export function ownLab(last: string): string {
  return ownedLab(`t${process.pid.toString(36)}${last}`);
}

/** Has {@link removeLabs} remove a lab that what a test runs has named. */
export function ownedLab(lab: string): string {
  labs.add(lab);
  return lab;
}

/** Ends what a test left running, and removes its labs. */
export async function removeLabs(): Promise<void> {
  await cleanUp();
  for (const lab of labs) spawnSync(process.execPath, [NETLAB, 'down', '--name', lab]);
  labs.clear();
}

export function netlab(...args: string[]): Program {
  return netlabWith({}, ...args);
}

/** {@link netlab} with variables in its environment. */
export function netlabWith(env: NodeJS.ProcessEnv, ...args: string[]): Program {
  return new Program([NETLAB, ...args], env);
}

/** Runs netlab to its end. */
export async function finished(...args: string[]) {
  const program = netlab(...args);
  const { exitCode } = await program.exited;
  return { exitCode, stdout: program.stdout, stderr: program.stderr };
}

/** Namespaces and interfaces that bear the name of the lab. */
export function partsOf(lab: string): string[] {
  const list = (folder: string) => readdirSync(folder).filter(name => new RegExp(`^nl-${lab}(-|$)`).test(name));
  return [...list('/var/run/netns').map(name => `namespace ${name}`), ...list('/sys/class/net')];
}

/** What a command on this host prints, as JSON. */
export function json<T>(command: string, ...args: string[]): T {
  return JSON.parse(spawnSync(command, args, { encoding: 'utf8' }).stdout) as T;
}

/** The objects that ranks printed, one in a line, by rank. */
export function printed<T>(stdout: string): T[] {
  const objects: T[] = [];
  for (const [, rank, text] of stdout.matchAll(/^\[(\d+)\] (\{.*\})$/gm))
    objects[Number(rank)] = JSON.parse(text!) as T;
  return objects;
}
