import { MAX_WORLD_SIZE } from '../../environment/variables';
import { invalidArgument } from '../../errors';

/**
 * Numbers of nodes from the command line: ranges and numbers, separated by commas, such as `1..8,16,32`. Ascending,
 * each once.
 *
 * @param inRange The numbers of a range. Default: all.
 * @throws ERR_INVALID_ARGUMENT
 */
export function parseNodes(text: string, option: string, inRange = allBetween): number[] {
  const all = text.split(',').flatMap(part => {
    const [, first, last = first] = /^\s*(\d+)(?:\.\.(\d+))?\s*$/.exec(part) ?? [];
    const [from, to] = [Number(first), Number(last)];
    if (!(from >= 1 && from <= to && to <= MAX_WORLD_SIZE)) {
      throw invalidArgument(
        `--${option} is '${text}'; it must be numbers from 1 to ${MAX_WORLD_SIZE} and ascending ranges of them, separated by commas, such as 1..64 or 2,4,8.`,
      );
    }
    return inRange(from, to);
  });
  return [...new Set(all)].sort((a, b) => a - b);
}

function allBetween(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

/** From the first, each twice the one before, and the last. */
export function doublings(from: number, to: number): number[] {
  const all = [from];
  while (2 * all.at(-1)! < to) all.push(2 * all.at(-1)!);
  return [...all, to];
}
