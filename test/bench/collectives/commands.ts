import path from 'node:path';
import type { CollectiveRow } from '../../../src/bench/collectives/row';
import { gradring } from '../../launcher/support';
import { benchOutputOfProcess } from '../commands';

/** A `gradring bench` command, without `--json`; and what is to be wrong in its results, if anything is. */
export interface RingCommand {
  readonly args: readonly string[];
  readonly spoils?: { readonly elements: readonly number[]; readonly ranks: readonly number[] };
}

/** What came of a command. */
export interface RingRows {
  readonly rows: readonly CollectiveRow[];
  /** By rank. */
  readonly exitCodes: readonly number[];
}

/** Runs commands one after the other in the same processes: those take most of the time of short measurements. */
export async function runInRing(ranks: number, commands: readonly RingCommand[]): Promise<RingRows[]> {
  const program = gradring(
    'run',
    '-n',
    `${ranks}`,
    path.join(__dirname, 'fixtures/commands.js'),
    JSON.stringify(commands),
  );
  expect(await program.exited).toEqual({ exitCode: 0, signal: null });
  expect(program.stderr).toBe('');
  const results = commands.map(() => ({ rows: [] as CollectiveRow[], exitCodes: [] as number[] }));
  for (let rank = 0; rank < ranks; rank++) {
    let command = 0;
    for (const [, text] of program.stdout.matchAll(new RegExp(`^\\[${rank}\\] (.*)$`, 'gm'))) {
      const line = JSON.parse(text!) as CollectiveRow | { readonly exitCode: number };
      if ('exitCode' in line) results[command++]!.exitCodes.push(line.exitCode);
      else results[command]!.rows.push(line);
    }
  }
  return results;
}

/** By default a warm-up takes seconds. */
export const WARM = ['--warm-up', '1'];

/** The rows of a command that starts its ranks. */
export async function collectiveRows(name: string, ...args: string[]): Promise<CollectiveRow[]> {
  const text = await benchOutputOfProcess(name, ...args, '--json');
  return text.trim().split('\n').map(line => JSON.parse(line) as CollectiveRow); // prettier-ignore
}
