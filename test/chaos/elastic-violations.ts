import type { ElasticObserved, Struck } from './elastic-run';
import type { Plan } from './plan';
import type { Fact, ReportFile } from './report-file';
import { LAUNCHER } from './run-processes';

/** How many more files a process may have open in a later ring, whichever: a socket has more. */
const MORE_FILES = 1;

/** How far a count of updates, which is a sum of float32, may be from a whole number. */
const TOLERANCE = 0.01;

/**
 * Within which the others must be at work again after a loss: they may all have to start anew, on a machine with much
 * to do.
 */
const RECOVERY_MS = 30_000;

/** What is judged of an elastic run. */
export type JudgedElastic = Pick<ElasticObserved, 'reports' | 'struck' | 'toldMs' | 'launcherEnd' | 'overdue' | 'left'>;

/** The promises that an elastic run broke, in words; none is how it should be. */
export function elasticViolations(
  { steps }: Pick<Plan, 'steps'>,
  { reports, struck, toldMs, launcherEnd, overdue, left }: JudgedElastic,
): string[] {
  const lives = livesOf(reports, struck);
  const last = Math.max(...lives.map(({ attempt }) => attempt));
  const ends = overdue.includes(LAUNCHER)
    ? ['the launcher did not end in time']
    : launcherEnd !== 0
      ? [`the launcher ended with ${launcherEnd}`]
      : [];
  const final = lives.filter(life => life.attempt === last && !life.isStruck && life.steps.length > 0);
  return [
    ...ends,
    ...toldMs.filter(ms => ms > RECOVERY_MS).map(ms => `the others did their next step after ${ms} ms`),
    ...(final.length === 0 ? ['nobody came to the end'] : []),
    ...final.flatMap(life =>
      life.steps.at(-1)!.step === steps - 1 && has(life, 'done') ? [] : [`${life.name} did not come to the end`],
    ),
    ...lives.flatMap(wrongsOfLife),
    ...lives.flatMap(wrongsOfFiles),
    ...differences(lives),
    ...left,
  ];
}

/** A process of a rank. */
interface Life {
  readonly name: string;
  /** How many times all had been started again before. */
  readonly attempt: number;
  readonly isNewcomer: boolean;
  readonly isStruck: boolean;
  readonly facts: readonly Fact[];
  readonly steps: readonly (Fact & { readonly step: number })[];
}

function livesOf(reports: readonly ReportFile[], struck: readonly Struck[]): Life[] {
  return reports.flatMap((report, rank) => {
    let attempt = -1;
    return report.lives.map(({ pid, facts }, i) => {
      const isNewcomer = !facts.some(({ role }) => role === 'member');
      if (!isNewcomer) attempt++;
      const isStruck = struck.some(each => each.pid === pid);
      const steps = facts.filter((fact): fact is Fact & { step: number } => fact.step !== undefined);
      return { name: `process ${i} of rank ${rank}`, attempt, isNewcomer, isStruck, facts, steps };
    });
  });
}

function has({ facts }: Life, name: keyof Fact): boolean {
  return facts.some(fact => name in fact);
}

function wrongsOfLife({ name, isNewcomer, facts, steps }: Life): string[] {
  const wrongs: string[] = [];
  const error = facts.find(fact => 'error' in fact)?.error;
  if (error !== undefined) wrongs.push(`${name} told of ${error.code}: ${error.stack ?? error.message}`);
  const first = steps[0]?.step ?? 0;
  if (!isNewcomer && first !== 0) wrongs.push(`${name} began with step ${first}`);
  const gap = steps.findIndex(({ step }, i) => step !== first + i);
  if (gap !== -1) wrongs.push(`${name} did step ${steps[gap]!.step} after step ${steps[gap - 1]!.step}`);
  const counted = facts.find(({ updates = 0, after = -1 }) => Math.abs(updates - (after + 1)) > TOLERANCE);
  if (counted !== undefined) wrongs.push(`${name} had got ${counted.updates} updates after step ${counted.after}`);
  return wrongs;
}

/**
 * Files that an earlier ring has left open. The fewest that were open while a ring stood count, for the one before it
 * is closed meanwhile; and the most in the first ring that had as many links.
 */
function wrongsOfFiles({ name, facts }: Life): string[] {
  const rings = new Map<number, { generation: number; links: number; counts: number[] }>();
  for (const { generation = 0, worldSize = 1, descriptors } of facts) {
    if (descriptors === undefined) continue;
    const ring = rings.get(generation) ?? { generation, links: Math.min(worldSize - 1, 2), counts: [] };
    ring.counts.push(descriptors);
    rings.set(generation, ring);
  }
  for (const { generation, links, counts } of rings.values()) {
    const first = [...rings.values()].find(ring => ring.links === links)!;
    const [now, before] = [Math.min(...counts), Math.max(...first.counts)];
    if (now <= before + MORE_FILES) continue;
    return [`${name} had ${now} files open in ring ${generation}, and ${before} in ring ${first.generation}`];
  }
  return [];
}

/**
 * Where weights are not the same on all that did a step in the same ring or in one that came out of it. What was done
 * only by a rank that was lost then is done again by those who are left: its last step.
 */
function differences(lives: readonly Life[]): string[] {
  const first = new Map<string, { name: string; hash: string | undefined }>();
  for (const { name, attempt, isStruck, steps } of lives) {
    for (const { step, hash } of isStruck ? steps.slice(0, -1) : steps) {
      const key = `${attempt} ${step}`;
      const known = first.get(key);
      if (known === undefined) first.set(key, { name, hash });
      else if (known.hash !== hash) return [`after step ${step} ${name} has other weights than ${known.name}`];
    }
  }
  return [];
}
