import type { FaultName } from './fault-kinds';
import type { Fault, Plan } from './plan';
import { strike } from './strike';
import { Summary } from './summary';

const RANKS = 4;

/** Strikes a run in which some have ended, when it is due. Returns whether that fell, and which ranks got a signal. */
async function strikeBeside(ended: number[], fault: Pick<Fault, 'kind' | 'ranks'>) {
  const signalled: number[] = [];
  let losses = 0;
  const run = {
    plan: { ranks: RANKS },
    processes: {
      hasEnded: (rank: number) => ended.includes(rank),
      signal: (rank: number) => void signalled.push(rank),
      pidOf: () => undefined,
    },
    links: new Map(),
    reports: Array.from({ length: RANKS }, () => ({ hashes: [{ step: 5, hash: '' }], told: () => undefined })),
    startedAt: 0,
    ranksHaveEnded: ended.length === RANKS,
    noteLoss: () => void losses++,
    startLate: () => {},
  };
  const fell = await strike(run, { ...fault, at: { step: 5, afterMs: 0 }, forMs: 0 });
  return { fell, signalled, losses };
}

test('a strike falls on those who are there', async () => {
  expect(await strikeBeside([0], { kind: 'kill', ranks: [2] })).toEqual({ fell: true, signalled: [2], losses: 1 });
  expect(await strikeBeside([3], { kind: 'reset link', ranks: [2] })).toMatchObject({ fell: true, losses: 1 });
  expect(await strikeBeside([], { kind: 'end launcher', ranks: [] })).toMatchObject({ fell: true, losses: 1 });
});

test.each<[string, number[], FaultName, number[]]>([
  ['a rank that has ended', [2], 'kill', [2]],
  ['two that have', [1, 2], 'kill two', [2, 1]],
  ['a link whose left end has ended', [1], 'reset link', [2]],
  ['a launcher that has ended', [-1], 'end launcher', []],
  ['ranks that do it themselves, and have all ended', [0, 1, 2, 3], 'exit 3', [2]],
])('a strike on %s never fell', async (_, ended, kind, ranks) => {
  expect(await strikeBeside(ended, { kind, ranks })).toEqual({ fell: false, signalled: [], losses: 0 });
});

test('runs that were never struck are counted apart', () => {
  const summary = new Summary(1);
  const plan = { number: 0, faults: [{ kind: 'kill', ranks: [1] }] } as object as Plan;
  const observed = { reports: [], toldMs: [300], tookMs: 400, leftByKill: [] };
  summary.add(plan, { ...observed, isStruck: true }, []);
  summary.add(plan, { ...observed, isStruck: false }, []);
  summary.add(plan, { ...observed, isStruck: false }, ['a file is there']);
  expect(summary.result).toMatchObject({ runs: 3, kinds: [{ kind: 'kill', runs: 1 }], neverStruck: { kill: 2 } });
  expect(summary.result.failures).toHaveLength(1);
  expect(summary.words).toContain(
    "2 of them had ended before all that was planned struck them, and are not in the table: 2 of 'kill'.",
  );
});
