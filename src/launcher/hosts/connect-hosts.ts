import { networkInterfaces } from 'node:os';
import { isLinkLocal, isLoopback } from '../../environment/network';
import { OF_ONE_HOST, RANK_OPTIONS } from '../../environment/rank-options';
import { printable } from '../../printable';
import { GradringError } from '../../errors';
import { readVersion } from '../../version';
import { crowdWarning } from '../host-resources';
import { type LaunchPlan, portWords, type RemotePlan } from '../launch-options';
import { findFreePort, requireFreePort } from '../../rendezvous/master-port';
import type { RankStarter, ReadyStarter } from '../rank-starter';
import { hashOf } from './agent';
import type { Readiness } from './agent-protocol';
import { HOST_TIMES, RemoteHost } from './remote-host';

/** Variables that describe this host, or this login. Those of the other hosts stay as they are. */
const OF_THIS_HOST =
  /^(PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|SHLVL|_|TERM|TMPDIR|TMP|TEMP|HOSTNAME|MAIL|DISPLAY|LS_COLORS|INIT_CWD|NODE|CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|KRB5CCNAME|XDG_.*|SSH_.*|DBUS_.*|npm_.*|RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT|GRADRING_RUN_ID|GRADRING_RUN_TOKEN|GRADRING_SOCKET_FOLDER)$/;

function isOfThisHost(variable: string): boolean {
  return OF_THIS_HOST.test(variable) || OF_ONE_HOST.some(name => RANK_OPTIONS[name].variable === variable);
}

/** So many connections are made at a time: sshd refuses some of those that are not logged in yet (MaxStartups, 10). */
const LOGINS_AT_A_TIME = 8;

/**
 * Connects to the hosts of a plan over `ssh`, so that ranks can be started there.
 *
 * @param say Prints a line for the user.
 * @throws GradringError `ERR_RANK_FAILED` naming each host that cannot be reached, or has another version of gradring,
 *   Node or the script; `ERR_ADDRESS_IN_USE` if rank 0 cannot have a port.
 */
export async function connectHosts(
  plan: LaunchPlan,
  say: (line: string) => Promise<void>,
  times = HOST_TIMES,
): Promise<ReadyStarter> {
  const { hosts, sshArgs } = plan.remote!;
  const remotes: RemoteHost[] = [];
  const hostOf = (rank: number) => remotes.find(({ name }) => name === plan.seats[rank]!.host)!;
  const starter: RankStarter = {
    start: (rank, told) => hostOf(rank).start(plan.seats[rank]!.localRank, told),
    whyNoStart: rank => hostOf(rank).whyLost,
    close: async () => void (await Promise.all(remotes.map(remote => remote.close()))),
  };
  const prepare = async ({ host, ranks }: RemotePlan['hosts'][number], i: number): Promise<Readiness> => {
    const firstRank = plan.seats.findIndex(seat => seat.host === host);
    const assignment = { kind: 'assign', ...assignmentOf(plan), ranks, firstRank } as const;
    remotes[i] = new RemoteHost(host, sshArgs, assignment, say, times);
    return remotes[i].prepare();
  };
  try {
    const readiness = await prepareAll(hosts, prepare, plan);
    const meeting = plan.elastic === undefined ? atFirst(remotes[0]!, readiness, plan) : atLauncher(readiness, plan);
    const { masterAddr, masterPort } = await meeting;
    const warnings = readiness.map(({ cores }, i) =>
      cores === undefined ? undefined : crowdWarning(hosts[i]!.ranks, hosts[i]!.host, cores),
    );
    return { starter, masterAddr, masterPort, warnings };
  } catch (error) {
    await starter.close();
    throw error;
  }
}

/** What all hosts get alike. */
function assignmentOf({ folder, script, args, nodeArgs, worldSize, gpusPerRank, env }: LaunchPlan) {
  const passed = Object.entries(process.env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !isOfThisHost(entry[0]),
  );
  return {
    ...{ folder, script, args, nodeArgs, worldSize, gpusPerRank },
    env: { ...Object.fromEntries(passed), ...env },
  };
}

/** @throws GradringError `ERR_RANK_FAILED` if a host is not ready. */
async function prepareAll(
  hosts: RemotePlan['hosts'],
  prepare: (host: RemotePlan['hosts'][number], index: number) => Promise<Readiness>,
  { folder, script }: Pick<LaunchPlan, 'folder' | 'script'>,
): Promise<Readiness[]> {
  const own = { gradring: readVersion(), node: process.version, script: hashOf(script), folder };
  const ready: Readiness[] = [];
  const problems: string[][] = [];
  const queue = hosts.entries();
  const work = async (): Promise<void> => {
    for (const [i, host] of queue) {
      try {
        ready[i] = await prepare(host, i);
        problems[i] = problemsOf(ready[i], own, script);
      } catch (error) {
        problems[i] = [`: ${(error as Error).message}`];
      }
    }
  };
  await Promise.all(Array.from({ length: LOGINS_AT_A_TIME }, work));
  ready.forEach(({ hostId }, i) => {
    const other = ready.findIndex(each => each?.hostId === hostId);
    if (hostId === undefined || other === i) return;
    problems[i]!.push(` is the same host as ${hosts[other]!.host}; give it all its ranks at once`);
  });
  const all = problems.flatMap((own, i) => own.map(problem => `${hosts[i]!.host}${problem}`));
  if (all.length > 0) throw noneStarted(all);
  return ready;
}

function noneStarted(problems: readonly string[]): GradringError {
  return new GradringError('ERR_RANK_FAILED', `No rank was started.\n${problems.map(line => `  ${line}`).join('\n')}`);
}

function problemsOf(
  there: Readiness,
  own: { readonly gradring: string; readonly node: string; readonly script: string; readonly folder: string },
  script: string,
): string[] {
  const problems: string[] = [];
  if (there.gradring !== own.gradring) problems.push(` has gradring ${there.gradring}; this host has ${own.gradring}`);
  if (there.node !== own.node) problems.push(` has Node ${there.node}; this host has ${own.node}`);
  if (!there.hasFolder) problems.push(` has no folder ${own.folder}, the working directory`);
  if (there.script === undefined) problems.push(` has no ${script}`);
  else if (there.script !== own.script) problems.push(` has another ${script} than this host`);
  else if (there.fault !== undefined) problems.push(`: ${printable(there.fault)}`);
  return problems;
}

type MeetingPlace = Pick<ReadyStarter, 'masterAddr' | 'masterPort'>;

/** Ranks meet at rank 0: at the address of the first host at which the others are most likely to reach it. */
async function atFirst(first: RemoteHost, readiness: readonly Readiness[], plan: LaunchPlan): Promise<MeetingPlace> {
  const [own] = readiness;
  const addresses = readiness.length === 1 ? [] : [own!.ownAddress, ...readiness.map(each => each.launcherAddress)];
  const masterAddr = plan.remote!.masterAddr ?? addresses.find(Boolean) ?? LOOPBACK;
  return { masterAddr, masterPort: plan.masterPort ?? (await findPort(first, masterAddr, plan)) };
}

/**
 * In an elastic run they meet at the launcher: at the first of its addresses by which hosts know it.
 *
 * @throws GradringError `ERR_RANK_FAILED` if they know it by none of its own.
 */
async function atLauncher(readiness: readonly Readiness[], plan: LaunchPlan): Promise<MeetingPlace> {
  const { remote, masterPort, words } = plan;
  const masterAddr = remote!.masterAddr ?? ownAddressKnownTo(readiness, words);
  if (masterPort === undefined) return { masterAddr, masterPort: await findFreePort(masterAddr, portWords(words, 'this host')) }; // prettier-ignore
  await requireFreePort(masterAddr, masterPort, words.nameOf('masterPort'));
  return { masterAddr, masterPort };
}

function ownAddressKnownTo(readiness: readonly Readiness[], { nameOf }: LaunchPlan['words']): string {
  const known = readiness.flatMap(({ launcherAddress: address }) => address ?? []);
  const outer = known.filter(address => !isLoopback(address) && !isLinkLocal(address));
  if (outer.length === 0) return LOOPBACK;
  const own = Object.values(networkInterfaces()).flatMap(all => all?.map(({ address }) => address) ?? []);
  const found = outer.find(address => own.includes(address));
  if (found !== undefined) return found;
  throw noneStarted([
    `The hosts see this one at ${[...new Set(outer)].join(', ')}, which is no address of it: there is a jump host or NAT between. In an elastic run the ranks meet at the launcher: give ${nameOf('masterAddr')} and ${nameOf('masterPort')}, at which they reach it`,
  ]);
}

const LOOPBACK = '127.0.0.1';

async function findPort(first: RemoteHost, masterAddr: string, { words }: LaunchPlan): Promise<number> {
  try {
    return await first.findPort(masterAddr, portWords(words, `${first.name}, where rank 0 runs`));
  } catch (error) {
    throw error instanceof GradringError ? error : noneStarted([`${first.name}: ${(error as Error).message}`]);
  }
}
