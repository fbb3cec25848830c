import { planOf } from '../chaos/draw-plan';
import type { FaultName } from '../chaos/fault-kinds';
import type { Plan } from '../chaos/plan';
import { runScript } from '../support/scripts';

describe('the checker of chaos runs finds', () => {
  /** What a run of that number says of broken promises, if its ranks have that bug. */
  const found = async (bug: string, kind: FaultName, number = numberOf(kind)) => {
    const { stdout, stderr, exitCode } = await runScript(
      'chaos',
      '--json',
      '--only',
      `${number}`,
      '--kind',
      kind,
      '--plant',
      bug,
    );
    const result = JSON.parse(stdout) as { failures: { broken: string[] }[] };
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`Again: npm run chaos -- --seed 1 --only ${number} --kind '`);
    return result.failures[0]!.broken;
  };

  test('that a rank has other weights', async () => {
    expect(await found('other weights', 'nothing')).toEqual(['after step 5 rank 1 has other weights than rank 0']);
  });

  test('that a rank leaves a process behind', async () => {
    expect(await found('orphan', 'nothing')).toEqual([expect.stringMatching(/^process \d+ runs on$/)]);
  });

  test('that a survivor does not end', async () => {
    expect(await found('hang', 'reset link')).toEqual(['rank 1 did not end in time']);
  });

  test('that a survivor does not end before a neighbour that lives on', async () => {
    const number = numberOf(
      'reset link',
      plan => isLong(plan) && plan.leaves[1] !== 'stay' && plan.leaves[2] === 'stay',
    );
    expect(await found('clings', 'reset link', number)).toEqual(['rank 1 did not end in time']);
  });

  test('that a later call does not tell of the error', async () => {
    const number = numberOf('reset link', plan => isLong(plan) && plan.leaves[1] === 'stay');
    expect(await found('forgets', 'reset link', number)).toEqual([
      expect.stringMatching(/^rank 1 told of ERR_PEER_LOST of rank \d, but when it called once more of nothing$/),
    ]);
  });

  test('that an error has no code', async () => {
    expect(await found('no code', 'nothing')).toContainEqual(
      expect.stringMatching(/^rank 1 failed without a code: TypeError: a planted bug/),
    );
  });

  test('that an error blames who did nothing', async () => {
    expect(await found('wrong blame', 'reset link')).toContainEqual(
      expect.stringMatching(/^rank 1 blames rank 99, told of ERR_PEER_LOST/),
    );
  });

  test('that ranks tell different things', async () => {
    expect(await found('other end', 'reset link')).toContainEqual(
      expect.stringMatching(/^rank 0 tells of ERR_PEER_LOST of rank \d, but rank 1 of ERR_PEER_LOST of rank \d$/),
    );
  });

  test('that a rank did what it cannot have done', async () => {
    expect(await found('ahead', 'reset link')).toContainEqual(
      expect.stringMatching(/^rank 1 did \d+ steps, though another did only \d+$/),
    );
  });

  test('that a rank of an elastic run has other weights', async () => {
    // Where the next ring is formed just then, the ranks compare, and find it themselves.
    expect(await found('other weights', 'elastic')).toContainEqual(
      expect.stringMatching(
        /^after step 5 process 0 of rank 1 has other weights than process 0 of rank 0$|ERR_REPLICAS_DIVERGED: The weights of rank 1 differ from those of rank 0 after step 5/,
      ),
    );
  });

  test('that a rank of an elastic run leaves files of its former ring open', async () => {
    // Of four, one is lost early, and replaced: the next rings have as many links as the first.
    expect(await found('open files', 'elastic', 3)).toContainEqual(
      expect.stringMatching(/^process 0 of rank 1 had \d+ files open in ring 1, and \d+ in ring 0$/),
    );
  });

  test('that a rank leaves a file behind', async () => {
    expect(await found('file', 'nothing')).toEqual(['left-behind is in the folder for temporary files']);
  });
});

/** The first run of few processes with that fault alone, in which rank 1 has the time to do wrong. */
function numberOf(kind: FaultName, condition: (plan: Plan) => boolean = ({ steps }) => steps <= 45): number {
  for (let number = 0; ; number++) {
    const plan = planOf(1, number, [kind]);
    if (plan.ranks > 4 || plan.workload === 'model' || plan.faults.length > 1 || !condition(plan)) continue;
    if (plan.launcher !== (kind === 'elastic')) continue;
    if (plan.elastic === undefined || losesOneLate(plan.elastic)) return number;
  }
}

/** One rank is lost, not rank 1, after step 5, in which the bugs are planted; it is not replaced. */
function losesOneLate({ losses, maxRestarts }: NonNullable<Plan['elastic']>): boolean {
  const [{ ranks, at }, ...others] = losses as [(typeof losses)[number]];
  return (
    maxRestarts === 0 && others.length === 0 && ranks.length === 1 && ranks[0] !== 1 && 'step' in at && at.step > 5
  );
}

/** Its link may fail late, as there is so much still to do. */
const isLong = ({ paceMs, steps, faults }: Plan) => {
  const { at } = faults[0]!;
  return paceMs === 20 && 'step' in at && steps - at.step > 30;
};
