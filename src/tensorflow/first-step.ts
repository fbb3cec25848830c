import { inspect, isDeepStrictEqual } from 'node:util';
import type { Communicator } from '../communicator/communicator';
import { describeCompression } from '../compression/describe-compression';
import type { Compression } from '../compression/dgc-options';
import { GradringError } from '../errors';
import { DataCheck } from './data-check';
import { printable, shownName } from '../printable';
import { isAnything, isRecordOf, isWith } from '../shape';
import { areTexts, checkDescriptions, checkHashes, describe, hashesOf, type Variables } from './replicas';

/** How much is quoted of an option that another rank has told. In UTF-16 units. */
const LONGEST_VALUE = 2_048;

/** What ranks tell each other before the first step. */
export interface Greeting {
  readonly variables: string[];
  readonly options: Record<string, unknown>;
  /** The hashes of the variables. */
  readonly hashes: string[];
  /** The hashes of the data that was given to `ring.shard`. */
  readonly data: string[];
}

export const isGreeting = isWith<Greeting>({
  variables: areTexts,
  options: isRecordOf(isAnything),
  hashes: areTexts,
  data: areTexts,
});

/** @param options The settings of the optimizers that must be the same on all ranks. */
export function greetingOf(communicator: Communicator, variables: Variables, options: Greeting['options']): Greeting {
  const data = DataCheck.of(communicator).take();
  return { variables: variables.map(describe), options, hashes: hashesOf(variables), data };
}

/**
 * Checks that the ranks train the same model with the same options, from the same weights. Warns if they have different
 * data.
 *
 * @throws GradringError `ERR_MODEL_MISMATCH`, `ERR_REPLICAS_DIVERGED`.
 */
export function checkGreetings(communicator: Communicator, variables: Variables, all: readonly Greeting[]): void {
  checkDescriptions(all.map(greeting => greeting.variables));
  checkSameOptions(all.map(({ options }) => options));
  const hashes = all.map(greeting => greeting.hashes);
  checkHashes(hashes, variables, 'before the first step');
  DataCheck.of(communicator).compare(all.map(({ data }) => data));
}

/** @throws GradringError `ERR_MODEL_MISMATCH`, naming the first option in which a rank differs from rank 0. */
function checkSameOptions(all: readonly Greeting['options'][]): void {
  const first = all[0]!;
  all.forEach((options, rank) => {
    for (const name of Object.keys({ ...first, ...options })) {
      const [expected, found] = [first[name], options[name]];
      if (isDeepStrictEqual(found, expected)) continue;
      const [at0, here] = [expected, found].map(value => printable(inWords(name, value), LONGEST_VALUE));
      const words = `Ranks wrap their optimizers differently: ${NAMES[name] ?? shownName(name)} is ${at0} on rank 0, but ${here} on rank ${rank}. It must be the same on all ranks.`;
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
