import { readFileSync } from 'node:fs';
import { invalidArgument } from '../../errors';
import { CONSTANT_NAMES, type Constants } from './cluster-model';

/**
 * The constants of an earlier run, from the file that its `--json` wrote.
 *
 * @throws ERR_INVALID_ARGUMENT
 */
export function readConstants(file: string): Constants {
  const fail = (words: string): never => {
    throw invalidArgument(`--constants is '${file}', ${words}. It must be a file that --json of this version wrote.`);
  };
  const read = (): unknown => {
    try {
      return JSON.parse(readFileSync(file, 'utf8'));
    } catch (error) {
      return fail(`which cannot be read: ${(error as Error).message}`);
    }
  };
  const constants = (read() as { readonly constants?: Readonly<Record<string, unknown>> } | null)?.constants ?? {};
  for (const name of CONSTANT_NAMES) {
    const value = constants[name];
    if (!(typeof value === 'number' && value >= 0 && Number.isFinite(value))) fail(`which has no constant ${name}`);
  }
  if (!((constants['lineShare'] as number) > 0)) fail('whose lineShare is 0');
  return constants as unknown as Constants;
}
