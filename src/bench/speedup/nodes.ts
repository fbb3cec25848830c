import { MAX_WORLD_SIZE } from '../../environment/variables';
import { invalidArgument } from '../../errors';

/**
 * Numbers of nodes from the command line: ranges and numbers, separated by commas, such as `1..8,16,32`. Ascending,
 * each once.
 *
 * @throws ERR_INVALID_ARGUMENT
 */
export function parseNodes(text: string, option: string): number[] {
  const all = text.split(',').flatMap(part => {
    const [, first, last = first] = /^\s*(\d+)(?:\.\.(\d+))?\s*$/.exec(part) ?? [];
    const [from, to] = [Number(first), Number(last)];
    if (!(from >= 1 && from <= to && to <= MAX_WORLD_SIZE)) {
      throw invalidArgument(
        `--${option} is '${text}'; it must be numbers from 1 to ${MAX_WORLD_SIZE} and ascending ranges of them, separated by commas, such as 1..64 or 2,4,8.`,
      );
    }
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  });
  return [...new Set(all)].sort((a, b) => a - b);
}
