import { readFileSync } from 'node:fs';
import { invalidArgument } from '../../errors';

/** How many ranks run on a host. */
export interface HostRanks {
  /** As `ssh` takes it: a name, an address, a name of its configuration, or one of these after `user@`. */
  readonly host: string;
  readonly ranks: number;
}

/** No option of `ssh`, no colon but in brackets. */
const HOST = /^((?:[^\s:@[\],-][^\s:@[\],]*@)?(?:\[[\da-f:.]+(?:%\w+)?\]|[^\s:@[\],-][^\s:@[\],]*))(?::(\d+))?$/i;

/**
 * Reads hosts such as `a:2,b:2`.
 *
 * @param option The option that holds them, for errors.
 * @param ranksEach The ranks of a host that has no number.
 * @throws GradringError `ERR_INVALID_ARGUMENT`
 */
export function parseHosts(text: string, option: string, ranksEach = 1): HostRanks[] {
  return checked(
    text.split(',').map(word => parseHost(word.trim(), option, ranksEach)),
    option,
  );
}

/**
 * Reads a file with a host on each line: `a:2`, or `a slots=2` as for Open MPI. A `#` begins a comment.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT`, also if it cannot be read.
 */
export function readHostfile(file: string, option: string, ranksEach = 1): HostRanks[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw invalidArgument(`${option} is '${file}', which cannot be read: ${(error as Error).message}.`);
  }
  const lines = text.split('\n').map((line, i) => ({ line: line.replace(/#.*/, '').trim(), at: `${file}:${i + 1}` }));
  const hosts = lines
    .filter(({ line }) => line !== '')
    .map(({ line, at }) => parseHost(line.replace(/\s+slots\s*=\s*(\d+)$/, ':$1'), at, ranksEach));
  if (hosts.length === 0) throw invalidArgument(`${file} (${option}) names no host.`);
  return checked(hosts, file);
}

function parseHost(word: string, where: string, ranksEach: number): HostRanks {
  const [, host, count] = HOST.exec(word) ?? [];
  const ranks = count === undefined ? ranksEach : Number(count);
  if (host !== undefined && ranks > 0) return { host: host.replace(/\[(.*)\]$/, '$1'), ranks };
  throw invalidArgument(`${where}: '${word}' is no host; write a name and how many ranks it gets, such as node1:2.`);
}

function checked(hosts: HostRanks[], where: string): HostRanks[] {
  const twice = hosts.find(({ host }, i) => hosts.findIndex(other => other.host === host) !== i);
  if (twice !== undefined) throw invalidArgument(`${where} has ${twice.host} twice; give it all its ranks at once.`);
  return hosts;
}
