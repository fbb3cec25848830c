import type { Random } from '../fuzz/random';
import type { ElasticPlan, Loss, Plan } from './plan';

const MOST_RANKS = 4; // all load TensorFlow.js
const COMMIT_EVERY = 5;

/** What their links are, each as often as the others. */
const LINKS: readonly Pick<Plan, 'transport' | 'encrypted'>[] = [
  { transport: 'ipc', encrypted: false },
  { transport: 'tcp', encrypted: false },
  { transport: 'tcp', encrypted: true },
];

/** Makes a plan that of an elastic run, which goes on to its end whatever is lost in it. */
export function drawElastic(random: Random, plan: Plan): Plan {
  const ranks = 3 + random.below(MOST_RANKS - 2);
  const steps = 15 + random.below(20);
  const losses = drawLosses(random, ranks, steps);
  const struck = losses.reduce((sum, loss) => sum + loss.ranks.length, 0);
  const min = 1 + random.below(ranks);
  // Each loss takes one restart at most; without any, the others just go on.
  const maxRestarts = ranks - struck >= min && random.below(4) === 0 ? 0 : struck;
  const elastic: ElasticPlan = { min, maxRestarts, commitEvery: COMMIT_EVERY, losses };
  // A successor takes longer to start than the others to train, if they do not take their time.
  const paceMs = losses.some(({ at }) => 'replacedMs' in at) ? 300 : 20;
  const leaves = Array.from({ length: ranks }, () => 'close' as const);
  const link = random.of(LINKS);
  return { ...plan, ...link, ranks, steps, workload: 'elastic', heartbeatMs: 5_000, leaves, paceMs, elastic };
}

function drawLosses(random: Random, ranks: number, steps: number): Loss[] {
  const first = random.below(ranks);
  const other = (first + 1 + random.below(ranks - 1)) % ranks;
  const atStep = { step: random.below(steps) };
  const afterMs = random.below(40);
  const kill: Loss = { kind: 'kill', ranks: [first], at: atStep, afterMs };
  switch (random.below(6)) {
    case 0: // one
      return [kill];
    case 1: // two at once
      return [{ ...kill, ranks: [first, other] }];
    case 2: // before the first ring stands, or just after
      return [{ ...kill, at: { startMs: random.below(3_000) } }];
    case 3: // while the next ring forms
      return [kill, { ...kill, ranks: [other], at: { lossMs: random.below(400) } }];
    case 4: // its successor, too
      return [
        { ...kill, at: { step: random.below(steps >> 2) } },
        { ...kill, at: { replacedMs: random.below(1_500) } },
      ];
    default: // not at the end: for one that is stopped when it has done all the launcher waits
      return [{ ...kill, kind: 'stop', at: { step: random.below(steps - 6) } }];
  }
}
