import type { Observed } from './chaos-run';
import type { Fault, Plan } from './plan';
import type { ReportFile, ToldAgain, ToldError } from './report-file';
import { disagreements, goneOf } from './agreement';
import { FAULT_KINDS, type FaultName } from './fault-kinds';
import { LATE, LAUNCHER } from './run-processes';
import { AT_ONCE_MS } from './time-limits';

/** Where a ring cannot form, for want of a rank. */
const NOT_FORMED: readonly (string | undefined)[] = ['ERR_RENDEZVOUS_TIMEOUT'];

/** What is said to a process that comes with the rank of another, or when the ring stands. */
const REFUSED = ['ERR_RANK_TAKEN', 'ERR_RENDEZVOUS_REFUSED', 'ERR_RENDEZVOUS_TIMEOUT', 'ERR_ADDRESS_IN_USE'];

/** Rank 0 has 2 s to tell who is missing; less what the ranks' threads need to start. */
const EARLY_MS = 1_000;

const FAILED = 7;

/** What ranks that end themselves exit with. */
const OWN_EXITS: { readonly [kind in FaultName]?: number } = { 'exit 0': 0, 'exit 3': 3, throw: 1 };

/** What is judged of a run. */
export type Judged = Omit<Observed, 'toldMs' | 'tookMs' | 'leftByKill' | 'output'>;

/** The promises that a run broke, in words; none is how it should be. */
export function violations(planned: Plan, observed: Judged): string[] {
  // What did not strike excuses nothing.
  const plan = observed.isStruck ? planned : { ...planned, faults: planned.faults.slice(1) };
  return [
    ...observed.overdue.map(number => `${nameOf(number)} did not end in time`),
    ...observed.reports.flatMap((report, rank) => {
      return wrongsOfRank(plan, observed, rank, report).map(words => `rank ${rank} ${words}`);
    }),
    ...wrongsOfLate(plan, observed),
    ...disagreements(plan, observed.reports, (rank, error) => {
      return NOT_FORMED.includes(error.code) || mayKnowLess(plan, rank);
    }),
    ...aheadOfOthers(observed),
    ...differences(observed.reports),
    ...observed.left,
  ];
}

/** The exit code of Node if a listener of uncaught errors throws. */
const THROWN_BY_HANDLER = 7;

function nameOf(number: number): string {
  return { [LAUNCHER]: 'the launcher', [LATE]: 'the second process of a rank' }[number] ?? `rank ${number}`;
}

function wrongsOfRank(plan: Plan, observed: Judged, rank: number, report: ReportFile): string[] {
  const { steps, faults, launcher } = plan;
  const mayVanish =
    strikesOn(plan, rank).some(kind => FAULT_KINDS[kind].ends) ||
    faults.some(({ kind }) => FAULT_KINDS[kind].outcome === 'end') ||
    (launcher && !observed.formed); // the launcher's patience is shorter than that of a rank that waits for others
  const end = observed.ends[rank];
  const error = report.told('error');
  const suffers = report.told('suffers');
  const own = suffers && OWN_EXITS[suffers];
  // TensorFlow.js's wasm backend hears uncaught errors, and throws them again, for which Node has a code of its own.
  const isThrownAgain = plan.workload === 'model' && suffers === 'throw' && end === THROWN_BY_HANDLER;
  if (observed.overdue.includes(rank)) return [];
  if (own !== undefined && end !== undefined && end !== own && !isThrownAgain)
    return [`was to exit with ${own}, but with ${end}`];
  if (error !== undefined) {
    const wrong =
      wrongOfError(plan, observed, rank, error) ??
      wrongOfStaying(plan, observed, rank, mayVanish) ??
      (mayVanish ? undefined : wrongOfLeaving(plan, observed, rank, report.toldAt('error')!));
    if (wrong !== undefined) return [wrong];
    return end === undefined || end === FAILED || mayVanish ? [] : [`failed, but ended with ${end}`];
  }
  if (report.told('done') === undefined) return mayVanish ? [] : [`ended without a word, with ${end}`];
  if (report.hashes.length !== steps) return [`ended well after ${report.hashes.length} of ${steps} steps`];
  const moreFiles = report.told('moreDescriptors') ?? 0;
  if (moreFiles > 0) return [`has ${moreFiles} more files open than before`];
  if (mayVanish) return [];
  if (end !== undefined && end !== 0) return [`was done, but ended with ${end}`];
  return [wrongOfLeaving(plan, observed, rank, report.toldAt('done')!) ?? []].flat();
}

/** A rank that lives on after its error must be told the same again, at once. */
function wrongOfStaying(
  plan: Plan,
  { reports, heldUpMs }: Judged,
  rank: number,
  mayVanish: boolean,
): string | undefined {
  const report = reports[rank]!;
  const [error, again] = [report.told('error')!, report.told('again')];
  if (plan.leaves[rank] !== 'stay' || !report.told('formed')) return undefined;
  if (again === undefined) {
    // The launcher's patience with those that stay has an end.
    return mayVanish || plan.launcher ? undefined : 'failed, but did not call once more';
  }
  const name = ({ code, blamed }: ToldError | ToldAgain) =>
    code === undefined ? 'nothing' : `${code} of rank ${blamed}`;
  if (name(again) !== name(error)) return `told of ${name(error)}, but when it called once more of ${name(again)}`;
  const own = plan.faults.filter(({ ranks }) => ranks.includes(rank)).reduce((sum, { forMs }) => sum + forMs, 0);
  return again.ms > AT_ONCE_MS + heldUpMs + own
    ? `called once more, and was told after ${again.ms} ms only`
    : undefined;
}

/** A rank that does not stay must not wait for those that do. */
function wrongOfLeaving(
  plan: Plan,
  { endedAt, allowedMs, lossTime = 0 }: Judged,
  rank: number,
  toldAt: number,
): string | undefined {
  const tookMs = (endedAt[rank] ?? 0) - Math.max(toldAt, lossTime);
  const isLate = plan.leaves[rank] !== 'stay' && tookMs > allowedMs;
  return isLate ? `took ${tookMs} ms to leave` : undefined;
}

/** Why an error is not one that the faults allow, if so. */
function wrongOfError(
  plan: Plan,
  observed: Judged,
  rank: number,
  { code, blamed, address, message, stack }: ToldError,
): string | undefined {
  const { faults, ranks } = plan;
  const told = `told of ${code}: ${message}`;
  if (code === undefined) return `failed without a code: ${stack}`;
  if (faults.some(({ kind }) => FAULT_KINDS[kind].outcome === 'end')) return undefined;
  if (NOT_FORMED.includes(code)) return wrongOfMeeting(plan, observed, rank, message);
  const kinds = faults.filter(({ kind }) => FAULT_KINDS[kind].codes?.includes(code));
  if (kinds.length === 0) return told;
  if (code === 'ERR_PEER_LOST' && !address) return `does not tell where the lost rank was, ${told}`;
  if (hasAllLeft(plan, observed)) return `needed nobody any more, but ${told}`;
  const around = [rank, (rank + 1) % ranks, (rank + ranks - 1) % ranks];
  const isWhole = goneOf(faults, observed.reports).length === 0;
  const blamable = mayKnowLess(plan, rank) ? around : kinds.flatMap(fault => blamableFor(fault, ranks, isWhole));
  if (blamed === undefined || !blamable.includes(blamed)) return `blames rank ${blamed}, ${told}`;
  const due = kinds
    .filter(({ kind }) => isWhole || !FAULT_KINDS[kind].link)
    .flatMap(({ kind }) => {
      return FAULT_KINDS[kind].words?.(blamed) ?? [];
    });
  const missing = due.find(words => !message.includes(words));
  return missing === undefined ? undefined : `does not say '${missing}', but ${told}`;
}

/**
 * Of a link that is cut, each end misses the other. All are to name the lower, if there is still a way round from one
 * end to the other.
 */
function blamableFor({ kind, ranks: struck }: Fault, ranks: number, isWhole: boolean): readonly number[] {
  if (!FAULT_KINDS[kind].link) return struck;
  const ends = [struck[0]!, (struck[0]! + ranks - 1) % ranks];
  return isWhole ? [Math.min(...ends)] : ends;
}

/**
 * Why a rank should not have told that the ranks did not meet: because they had; or because it does not tell who was
 * missing.
 */
function wrongOfMeeting(
  { faults }: Plan,
  { formed, reports }: Judged,
  rank: number,
  message: string,
): string | undefined {
  const told = `told that the ranks did not meet: ${message}`;
  const struck = faults.filter(({ kind }) => FAULT_KINDS[kind].ends).flatMap(fault => fault.ranks);
  if (formed || struck.length === 0) return told;
  // Rank 0 tells all that they have met. If it is struck in the midst of that, only some know.
  const knows = struck.includes(0) ? reports[rank] : reports.find(report => report.told('started'));
  if (knows?.told('started')) return `knew where the others are, but ${told}`;
  const named = /ranks? ([\d, ]+) did not come/.exec(message)?.[1].split(', ').map(Number) ?? [];
  // A rank that came long before rank 0 gives up before it, and cannot know more.
  const isEarly = (reports[rank]!.toldAt('meets') ?? Infinity) + EARLY_MS < (reports[0]!.toldAt('meets') ?? -Infinity);
  if (struck.includes(0) || named.some(each => struck.includes(each)) || isEarly) return undefined;
  return `does not name who was struck, but ${told}`;
}

/** A rank that was stopped, and goes on, finds its neighbours gone. */
function mayKnowLess(plan: Plan, rank: number): boolean {
  return strikesOn(plan, rank).includes('stop for long');
}

function strikesOn({ faults }: Plan, rank: number): FaultName[] {
  return faults.filter(({ ranks }) => ranks.includes(rank)).map(({ kind }) => kind);
}

/** Whether all that were struck had left in order before anything befell them. */
function hasAllLeft({ faults }: Plan, { reports, lossTime = -Infinity }: Judged): boolean {
  const struck = faults.filter(({ kind }) => FAULT_KINDS[kind].outcome !== 'success');
  if (struck.some(({ kind, ranks }) => FAULT_KINDS[kind].link || ranks.length === 0)) return false;
  const hasLeft = (report: ReportFile) =>
    report.told('done') !== undefined && (report.toldAt('left') ?? Infinity) < lossTime;
  return struck.every(({ ranks }) => ranks.every(rank => hasLeft(reports[rank]!)));
}

/** No rank can do a step to which another has not come. */
function aheadOfOthers({ reports, late }: Judged): string[] {
  const done = reports.map(report => report.hashes.length);
  // A second process may have taken the place of one that had done nothing.
  const least = Math.min(...done.map(count => (count === 0 ? (late?.hashes.length ?? 0) : count)));
  const ahead = done.findIndex(count => count > least + 1);
  return ahead === -1 ? [] : [`rank ${ahead} did ${done[ahead]} steps, though another did only ${least}`];
}

function wrongsOfLate({ steps }: Plan, { late, lateEnd, overdue }: Judged): string[] {
  if (late === undefined || overdue.includes(LATE)) return [];
  const who = nameOf(LATE);
  const error = late.told('error');
  // One that was killed before it met the others can be replaced.
  if (error === undefined) return late.hashes.length === steps ? [] : [`${who} ended without a word, with ${lateEnd}`];
  if ([...REFUSED, 'ERR_PEER_LOST'].includes(error.code ?? '')) return [];
  return [`${who} told of ${error.code}: ${error.stack ?? error.message}`];
}

/** Where weights are not the same on all ranks that did a step. */
function differences(reports: readonly ReportFile[]): string[] {
  const first = new Map<number, { rank: number; hash: string | undefined }>();
  for (const [rank, { hashes }] of reports.entries()) {
    for (const { step, hash } of hashes) {
      const known = first.get(step);
      if (known === undefined) first.set(step, { rank, hash });
      else if (known.hash !== hash)
        return [`after step ${step} rank ${rank} has other weights than rank ${known.rank}`];
    }
  }
  return [];
}
