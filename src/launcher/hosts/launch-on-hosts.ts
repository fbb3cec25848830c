import { GradringError } from '../../errors';
import { readVersion } from '../../version';
import { conclude, type LaunchResult } from '../conclude';
import type { LaunchPlan, RemotePlan } from '../launch-options';
import { RankOutputs } from '../rank-outputs';
import { chooseRunId } from '../rank-variables';
import { chooseRunToken, tokenFileWarning } from '../run-token';
import { endTogether, Supervisor } from '../supervisor';
import { hashOf } from './agent';
import type { Readiness, RemoteMeeting } from './agent-protocol';
import { HOST_TIMES, RemoteHost } from './remote-host';

/** Variables that describe this host, or this login. Those of the other hosts stay as they are. */
const OF_THIS_HOST =
  /^(PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|SHLVL|_|TERM|TMPDIR|HOSTNAME|MAIL|DISPLAY|LS_COLORS|INIT_CWD|NODE|XDG_.*|SSH_.*|DBUS_.*|npm_.*|RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT|GRADRING_RUN_ID|GRADRING_RUN_TOKEN|GRADRING_SOCKET_FOLDER)$/;

/**
 * Starts ranks on several hosts over `ssh`, and ends them together. Nothing is started if a host cannot be reached, or
 * has another version of gradring, Node or the script.
 *
 * @throws GradringError `ERR_RANK_FAILED` naming each such host.
 */
export async function launchOnHosts(
  plan: LaunchPlan,
  remote: RemotePlan,
  times = HOST_TIMES,
): Promise<LaunchResult> {
  const { hosts, sshArgs } = remote;
  const places = hosts.flatMap(({ ranks }, host) =>
    Array.from({ length: ranks }, (_, localRank) => ({ host, localRank })),
  );
  const outputs = new RankOutputs(plan, rank => `${hosts[places[rank]!.host]!.host} ${rank}`);
  const warning = plan.tokenFile && tokenFileWarning(plan.tokenFile);
  const remotes = hosts.map(({ host, ranks }, i) => {
    const firstRank = places.findIndex(place => place.host === i);
    const assignment = { kind: 'assign', ...assignmentOf(plan), ranks, firstRank } as const;
    return new RemoteHost(host, sshArgs, assignment, line => void outputs.say([line]), times);
  });
  try {
    if (warning) await outputs.say([`gradring: ${warning}`]);
    const readiness = await prepareAll(remotes, plan.script);
    const meeting = { ...(await meetingOf(plan, remote.masterAddr, remotes, readiness)), colors: outputs.colors };
    const supervisor = new Supervisor(plan.ranks, plan.graceMs, {
      start: rank => remotes[places[rank]!.host]!.start(places[rank]!.localRank, meeting),
      outputs,
    });
    return await conclude(await supervisor.run(endTogether(plan.failureGraceMs)), outputs);
  } finally {
    await Promise.all(remotes.map(remote => remote.close()));
    await outputs.close();
  }
}

/** What all hosts get alike. */
function assignmentOf({ script, args, nodeArgs, worldSize, gpusPerRank, env }: LaunchPlan) {
  const passed = Object.entries(process.env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !OF_THIS_HOST.test(entry[0]),
  );
  return {
    ...{ folder: process.cwd(), script, args, nodeArgs, worldSize, gpusPerRank },
    env: { ...Object.fromEntries(passed), ...env },
  };
}

async function prepareAll(remotes: readonly RemoteHost[], script: string): Promise<Readiness[]> {
  const own = { gradring: readVersion(), node: process.version, script: hashOf(script) };
  const settled = await Promise.allSettled(remotes.map(remote => remote.prepare()));
  const problems = settled.flatMap((result, i) => {
    const { name } = remotes[i]!;
    if (result.status === 'rejected') return [`${name}: ${(result.reason as Error).message}`];
    return problemsOf(result.value, own, script).map(problem => `${name} ${problem}`);
  });
  if (problems.length > 0) {
    throw new GradringError('ERR_RANK_FAILED', `No rank was started.\n${problems.map(line => `  ${line}`).join('\n')}`);
  }
  return settled.map(result => (result as PromiseFulfilledResult<Readiness>).value);
}

function problemsOf(
  there: Readiness,
  own: { readonly gradring: string; readonly node: string; readonly script: string },
  script: string,
): string[] {
  const problems: string[] = [];
  if (there.gradring !== own.gradring) problems.push(`has gradring ${there.gradring}; this host has ${own.gradring}`);
  if (there.node !== own.node) problems.push(`has Node ${there.node}; this host has ${own.node}`);
  if (!there.hasFolder) problems.push(`has no folder ${process.cwd()}, the working directory`);
  if (there.script === undefined) problems.push(`has no ${script}`);
  else if (there.script !== own.script) problems.push(`has another ${script} than this host`);
  return problems;
}

/** The ranks meet on the first host, at the address at which the others are most likely to reach it. */
async function meetingOf(
  plan: LaunchPlan,
  given: string | undefined,
  remotes: readonly RemoteHost[],
  readiness: readonly Readiness[],
): Promise<Omit<RemoteMeeting, 'colors'>> {
  const [first] = remotes;
  const seen = readiness[0]!.ownAddress ?? readiness.map(each => each.launcherAddress).find(Boolean);
  const masterAddr = given ?? (remotes.length === 1 ? '127.0.0.1' : (seen ?? '127.0.0.1'));
  try {
    const masterPort = plan.masterPort ?? (await first!.findPort(masterAddr));
    const env = { ...process.env, ...plan.env };
    return { masterAddr, masterPort, runId: chooseRunId(plan, masterPort, env), runToken: chooseRunToken(plan, env)! };
  } catch (error) {
    const words = `${first!.name}, where rank 0 runs: ${(error as Error).message}`;
    throw new GradringError('ERR_RANK_FAILED', `No rank was started. ${words}`, { rank: 0 }, { cause: error });
  }
}
