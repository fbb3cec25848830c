import { ELEMENT_BYTES, isFloat } from '../../collectives/element-type';
import type { ElementType } from '../../communicator/communicator';
import { ENCRYPTIONS, TRANSPORTS } from '../../environment/rank-options';
import { VALUE_FORMATS } from '../../compression/value-format';
import { invalidArgument } from '../../errors';
import { parseCount, parseCounts, parseName, parseNames, parseNumber } from '../../command-line';
import { parseDensities } from '../options';
import { parseSize, sizesBetween } from './byte-sizes';
import { type Case, type CollectiveBenchmark, type Plan, REDUCTIONS, TYPES, WAYS } from './collective-benchmark';
import type { Words } from './options';

/** A case moves about this many bytes, in at least 5 and at most 200 iterations. */
const BYTES_OF_A_CASE = 256 * 2 ** 20;

/** V8 compiles code while it runs, which takes this long. Each size has a share of that time, and a minimum. */
const WARM_UP_MS = { all: 3000, each: 500 };

/**
 * The command line, checked, with all defaults.
 *
 * @throws ERR_INVALID_ARGUMENT
 */
export function planOf(benchmark: CollectiveBenchmark, words: Words, ranks: number): Plan {
  const type = parseName(words.type ?? 'float32', 'type', TYPES);
  const op = parseName(words.op ?? 'sum', 'op', REDUCTIONS);
  if (op === 'mean' && !isFloat(type)) {
    throw invalidArgument(
      `--op mean needs a float type, because means of --type ${type} are not whole: choose another type or op.`,
    );
  }
  const root = rootOf(words.root, ranks);
  const counts = elementCounts(benchmark, words, type, ranks);
  const sparse = sparseCases(benchmark, words);
  const warmUpMs = Math.max(WARM_UP_MS.each, WARM_UP_MS.all / (counts.length * sparse.length));
  const repetitions = (elements: number) => repetitionsOf(words, elements * ELEMENT_BYTES[type], warmUpMs);
  const cases = counts.flatMap(elements =>
    sparse.map((of): Case => ({ elements, type, op, root, ...repetitions(elements), ...(of && { sparse: of }) })),
  );
  const { encryption } = words;
  const links = {
    transport: parseName(words.transport!, 'transport', TRANSPORTS),
    ...(encryption !== undefined && { encryption: parseName(encryption, 'encryption', ENCRYPTIONS) }),
  };
  return { collective: benchmark.name, cases, links, check: !words['no-check'] };
}

function rootOf(text: string | undefined, ranks: number): number {
  if (text === undefined) return Math.min(1, ranks - 1);
  return parseNumber(text, {
    option: 'root',
    words: `a rank, 0 … ${ranks - 1}`,
    accepts: value => Number.isInteger(value) && value >= 0 && value < ranks,
  });
}

/** The numbers of elements for the sizes that were asked for, without duplicates. */
function elementCounts(
  { options, elementsFor = elements => elements }: CollectiveBenchmark,
  words: Words,
  type: ElementType,
  ranks: number,
): number[] {
  if (!options.includes('sizes')) return [0];
  const bySize = words['min-bytes'] !== undefined || words['max-bytes'] !== undefined;
  if (options.includes('sparse') && !bySize) {
    return parseCounts(words.elements ?? '1000000,25600000', 'elements');
  }
  if (words.elements !== undefined) throw invalidArgument('Use either --elements or sizes in bytes, not both.');
  const least = parseSize(words['min-bytes'] ?? '4', 'min-bytes');
  const most = parseSize(words['max-bytes'] ?? '64M', 'max-bytes');
  if (least > most) {
    throw invalidArgument(
      `--min-bytes ${words['min-bytes'] ?? '4'} is more than --max-bytes ${words['max-bytes'] ?? '64M'}.`,
    );
  }
  const factor = parseNumber(words['step-factor']!, {
    option: 'step-factor',
    words: 'a number greater than 1',
    accepts: value => value > 1 && Number.isFinite(value),
  });
  const counts = sizesBetween(least, most, factor).map(bytes =>
    elementsFor(Math.max(1, Math.floor(bytes / ELEMENT_BYTES[type])), ranks),
  );
  return [...new Set(counts)];
}

function sparseCases({ options }: CollectiveBenchmark, words: Words): (Case['sparse'] | undefined)[] {
  if (!options.includes('sparse')) return [undefined];
  const densities = parseDensities(words.density!);
  const formats = parseNames(words.values!, 'values', VALUE_FORMATS);
  const ways = parseNames(words.way!, 'way', WAYS);
  return densities.flatMap(density => formats.flatMap(values => ways.map(way => ({ density, values, way }))));
}

/** @param warmUpMs The default. */
function repetitionsOf(
  words: Words,
  bytes: number,
  warmUpMs: number,
): Pick<Case, 'warmUp' | 'warmUpMs' | 'iterations'> {
  const iterations =
    words.iterations === undefined
      ? Math.max(5, Math.min(200, Math.floor(BYTES_OF_A_CASE / Math.max(1, bytes))))
      : parseCount(words.iterations, 'iterations');
  const text = words['warm-up'];
  if (text === undefined || /^\d+(\.\d+)?s$/.test(text)) {
    const forMs = text === undefined ? warmUpMs : 1000 * parseFloat(text);
    return { warmUp: Math.max(2, Math.round(iterations / 2)), warmUpMs: forMs, iterations };
  }
  const warmUp = parseNumber(text, {
    option: 'warm-up',
    words: 'a whole number, 0 or more, or seconds, such as 5s',
    accepts: value => Number.isSafeInteger(value) && value >= 0,
  });
  return { warmUp, warmUpMs: 0, iterations };
}
