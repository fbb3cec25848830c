import { inspect, isDeepStrictEqual } from 'node:util';
import { describeCompression } from '../compression/describe-compression';
import type { Compression } from '../compression/dgc-options';
import { GradringError } from '../errors';
import { printable, shownName } from '../printable';
import { isAnything, isRecordOf, isWith } from '../shape';
import { areTexts } from './replicas';

/** How much is quoted of an option that another rank has told. In UTF-16 units. */
const LONGEST_VALUE = 2_048;

/** What ranks tell each other before the first step. */
export interface Greeting {
  readonly variables: string[];
  /** The settings that must be the same on all ranks. */
  readonly options: Record<string, unknown>;
  /** The hashes of the variables. Empty if only the program has their values. */
  readonly hashes: string[];
  /** The hashes of the data of all ranks, if gradring has divided them. */
  readonly data: string[];
}

export const isGreeting = isWith<Greeting>({
  variables: areTexts,
  options: isRecordOf(isAnything),
  hashes: areTexts,
  data: areTexts,
});

/**
 * Compares the settings of all ranks.
 *
 * @param differently What is wrong if they differ: `Ranks wrap their optimizers differently`.
 * @throws GradringError `ERR_MODEL_MISMATCH`, naming the first option in which a rank differs from rank 0.
 */
export function checkSameOptions(all: readonly Greeting['options'][], differently: string): void {
  const first = all[0]!;
  all.forEach((options, rank) => {
    for (const name of Object.keys({ ...first, ...options })) {
      const [expected, found] = [first[name], options[name]];
      if (isDeepStrictEqual(found, expected)) continue;
      const [at0, here] = [expected, found].map(value => printable(inWords(name, value), LONGEST_VALUE));
      const words = `${differently}: ${NAMES[name] ?? shownName(name)} is ${at0} on rank 0, but ${here} on rank ${rank}. It must be the same on all ranks.`;
      throw new GradringError('ERR_MODEL_MISMATCH', words, { rank });
    }
  });
}

/** Options that the user does not know by this name. */
const NAMES: Readonly<Record<string, string>> = {
  compressorFile: "the checksum of the compression's file",
  step: 'the number of the next step',
};

function inWords(name: string, value: unknown): string {
  if (value === undefined) return 'not set';
  try {
    return name === 'compression' ? describeCompression(value as Compression) : inspect(value);
  } catch {
    return inspect(value); // it comes from another rank, and is no compression
  }
}
