import { readOptionFile } from '../../command-line';
import { invalidArgument } from '../../errors';

/** A host, and how many ranks run on it. */
export interface HostRanks {
  /** As `ssh` takes it: a name, an address, a name of its configuration, or one of these after `user@`. */
  readonly host: string;
  /** Default: the same number for all hosts that have none. */
  readonly ranks?: number;
}

/** No option of `ssh`, no colon but in an address. */
const NAME = String.raw`[^\s:@[\],-][^\s:@[\],]*`;
const ADDRESS = String.raw`[\da-f]*:[\da-f:.]*(?:%\w+)?`;
const HOST = new RegExp(`^(?:${NAME}@)?(?:${ADDRESS}|${NAME})$`, 'i');
/** In a list an address is in brackets. */
const LISTED = new RegExp(String.raw`^((?:${NAME}@)?(?:\[${ADDRESS}\]|${NAME}))(?::(\d+))?$`, 'i');

/**
 * Reads hosts such as `a:2,b:2`.
 *
 * @param option The option that holds them, for errors.
 * @throws GradringError `ERR_INVALID_ARGUMENT`
 */
export function parseHosts(text: string, option: string): readonly HostRanks[] {
  const words = text.split(',').map(word => word.trim());
  if (words.length > 1 && words.at(-1) === '') {
    throw invalidArgument(`${option}: '${text}' ends with a comma; write the list without spaces: a:2,b:2.`);
  }
  return checkHosts(
    words.map(word => parseHost(word, option)),
    option,
  );
}

/**
 * Reads a file with a host on each line: `a:2`, or `a slots=2` as for Open MPI. A `#` begins a comment. If hosts come
 * several times without a number, as in the PBS_NODEFILE of PBS, each line stands for one rank.
 *
 * @throws GradringError `ERR_INVALID_ARGUMENT`, also if it cannot be read.
 */
export function readHostfile(file: string, option: string): readonly HostRanks[] {
  const lines = readOptionFile(file, option)
    .split('\n')
    .map((line, i) => ({ line: line.replace(/#.*/, '').trim(), at: `${file}:${i + 1}` }));
  const hosts = lines
    .filter(({ line }) => line !== '')
    .map(({ line, at }) => {
      const host = parseHost(line.replace(/\s+slots\s*=\s*(\d+)$/, ':$1'), at, line);
      checkRanks(host, at);
      return host;
    });
  return checkHosts(countLines(hosts), file);
}

/** If hosts without a number are repeated, each such host once, with as many ranks as it has lines. */
function countLines(lines: readonly HostRanks[]): readonly HostRanks[] {
  const counts = new Map<string, number>();
  for (const { host, ranks } of lines) if (ranks === undefined) counts.set(host, (counts.get(host) ?? 0) + 1);
  if ([...counts.values()].every(count => count === 1)) return lines;
  return lines.flatMap(line => {
    if (line.ranks !== undefined) return [line];
    const ranks = counts.get(line.host);
    counts.delete(line.host);
    return ranks === undefined ? [] : [{ ...line, ranks }];
  });
}

/** @param typed What the user wrote, for errors. */
function parseHost(word: string, where: string, typed = word): HostRanks {
  const [, host, count] = LISTED.exec(word) ?? [];
  if (host !== undefined) {
    return { host: host.replace(/\[(.*)\]$/, '$1'), ...(count !== undefined && { ranks: Number(count) }) };
  }
  throw invalidArgument(`${where}: '${typed}' is no host; ${hintFor(typed)}.`);
}

function hintFor(word: string): string {
  const [name = ''] = word.split(/\s/);
  if ((name.match(/:/g) ?? []).length > 1 && !name.includes('[')) {
    return 'write an IPv6 address in brackets, such as [fd00::1]:2';
  }
  if (/\sslots\s*=/.test(word)) return 'only slots=N may follow a name';
  return 'write a name and how many ranks it gets, such as node1:2';
}

/** @throws GradringError `ERR_INVALID_ARGUMENT` */
function checkRanks({ host, ranks }: HostRanks, where: string): void {
  if (ranks === undefined || (Number.isInteger(ranks) && ranks >= 1)) return;
  throw invalidArgument(`${where}: ${host} has ${ranks} ranks; a host gets 1 rank or more.`);
}

/**
 * Checks that `ssh` takes each host for a host, that each has ranks, and that none comes twice.
 *
 * @param where What has the hosts, for errors.
 * @throws GradringError `ERR_INVALID_ARGUMENT`
 */
export function checkHosts(hosts: readonly HostRanks[], where: string): readonly HostRanks[] {
  if (hosts.length === 0) throw invalidArgument(`${where} names no host.`);
  hosts.forEach((each, i) => {
    const { host } = each;
    if (!HOST.test(host)) throw invalidArgument(`${where}: '${host}' is no host.`);
    checkRanks(each, where);
    if (hosts.findIndex(other => other.host === host) !== i) {
      throw invalidArgument(`${where} has ${host} twice; give it all its ranks at once.`);
    }
  });
  return hosts;
}
