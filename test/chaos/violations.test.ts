import { elasticViolations } from './elastic-violations';
import type { Plan } from './plan';
import { ReportFile } from './report-file';
import { violations } from './violations';

const STEPS = 20;

/** What a rank told: facts, in order. */
function reportOf(facts: object[]): ReportFile {
  return Object.assign(new ReportFile('/nowhere'), { facts });
}

const steps = (count: number, first = 0) =>
  Array.from({ length: count }, (_, i) => ({ step: first + i, hash: `after ${first + i}` }));

const lost = (blamed: number, more: object = {}) => ({
  error: { code: 'ERR_PEER_LOST', blamed, address: 'tcp://somewhere', message: 'Rank is gone.', ...more },
});

interface Ring {
  readonly kind: string;
  readonly struck: number[];
  readonly formed?: boolean;
  /** By rank; the others close. */
  readonly leaves?: readonly string[];
  readonly isStruck?: boolean;
  /** By rank, after 0, when whatever befell them did so at 100. */
  readonly endedAt?: readonly number[];
}

/** How long a rank may take to leave. */
const ALLOWED_MS = 1_000;

/** What is wrong with a run whose ranks told so. */
function wrongs(ring: Ring, told: object[][]): string[] {
  const { kind, struck, formed = true, isStruck = true, leaves = [], endedAt = [] } = ring;
  const faults = [{ kind, ranks: struck, at: { step: 3, afterMs: 0 }, forMs: 0 }];
  const plan = { number: 0, ranks: told.length, steps: STEPS, launcher: false, leaves, faults } as object as Plan;
  const reports = told.map(reportOf);
  const ends = told.map((facts, rank) => {
    if (kind.startsWith('kill') && struck.includes(rank)) return 'SIGKILL';
    return facts.some(fact => 'done' in fact) ? 0 : 7;
  });
  const times = { lossTime: isStruck ? 100 : undefined, endedAt, allowedMs: ALLOWED_MS, heldUpMs: 0 };
  return violations(plan, { reports, ends, formed, isStruck, ...times, overdue: [], left: [] });
}

const killed = { kind: 'kill', struck: [2] };
const dead = steps(4);
const survivor = [...steps(4), lost(2)];

test('a loss of which all tell alike is as it should be', () => {
  expect(wrongs(killed, [survivor, survivor, dead, [...steps(5), lost(2)]])).toEqual([]);
});

test('survivors that tell different things', () => {
  const both = { kind: 'kill two', struck: [2, 3] };
  expect(wrongs(both, [survivor, [...steps(4), lost(3)], dead, dead])).toEqual([
    'rank 0 tells of ERR_PEER_LOST of rank 2, but rank 1 of ERR_PEER_LOST of rank 3',
  ]);
  // Between the two that are gone no word passes.
  expect(
    wrongs({ kind: 'kill two', struck: [1, 3] }, [[...steps(4), lost(1)], dead, [...steps(4), lost(3)], dead]),
  ).toEqual([]);
});

test('a cut link that is not told as such', () => {
  const link = { kind: 'cut link', struck: [2] }; // between 1 and 2
  const end = lost(1, { message: 'The link between rank 1 and rank 2 is cut.' });
  const all = (error: object) => [0, 1, 2].map(() => [...steps(4), error]);
  expect(wrongs(link, all(end))).toEqual([]);
  expect(wrongs(link, all(lost(2)))[0]).toMatch(/^rank 0 blames rank 2/);
  expect(wrongs(link, all(lost(1)))[0]).toMatch(/^rank 0 does not say 'The link between'/);
});

test('a rank that is ahead of one that was lost', () => {
  const ahead = [...steps(6), lost(2)];
  expect(wrongs(killed, [survivor, survivor, dead, ahead])).toEqual(['rank 3 did 6 steps, though another did only 4']);
});

test('a deadline that blames nobody, or the network', () => {
  const busy = { kind: 'busy past the deadline', struck: [1] };
  const late = (more: object) => {
    const error = {
      code: 'ERR_TIMEOUT',
      blamed: 1,
      message: 'rank 1 has not called it; its last call ended 7 s ago',
      ...more,
    };
    return [0, 1, 2].map(() => [...steps(4), { error }]);
  };
  expect(wrongs(busy, late({}))).toEqual([]);
  expect(wrongs(busy, late({ blamed: undefined }))[0]).toMatch(/^rank 0 blames rank undefined/);
  expect(wrongs(busy, late({ message: 'all ranks have called it' }))[0]).toMatch(
    /does not say 'rank 1 has not called it'/,
  );
});

test('ranks that did not meet, though they knew of each other', () => {
  const early = { ...killed, formed: false };
  const message = 'Of 3 ranks, rank 2 did not come to the rendezvous within 5000 ms.';
  const error = { code: 'ERR_RENDEZVOUS_TIMEOUT', message };
  expect(wrongs(early, [[{ error }], [{ error }], []])).toEqual([]);
  expect(wrongs(early, [[{ error }], [{ started: true }, { error }], []])).toHaveLength(2);
  expect(wrongs(early, [[{ started: true }, lost(2)], [{ started: true }, lost(2)], []])).toEqual([]);
  const other = { ...error, message: message.replace('rank 2', 'rank 1') };
  expect(wrongs(early, [[{ error: other }], [{ error }], []])[0]).toMatch(/^rank 0 does not name who was struck/);
});

test('a loss of a rank that nobody needed any more', () => {
  const left = [...steps(STEPS), { done: true }, { left: true, at: 99 }];
  expect(wrongs(killed, [[...steps(STEPS - 1), lost(2)], [...steps(STEPS - 1), lost(2)], left])[0]).toMatch(
    /^rank 0 needed nobody any more/,
  );
});

describe('a rank that stays after its error', () => {
  const stays = (...more: object[]) =>
    wrongs({ ...killed, leaves: ['close', 'stay', 'close'] }, [
      survivor,
      [{ formed: true }, ...steps(4), { ...lost(2), at: 200 }, ...more],
      dead,
    ]);
  const again = (more: object) => ({ again: { code: 'ERR_PEER_LOST', blamed: 2, ms: 1, ...more } });

  test('and is told the same when it calls once more', () => {
    expect(stays(again({}))).toEqual([]);
  });

  test.each([
    ['nothing', again({ code: undefined }), 'but when it called once more of nothing'],
    ['another code', again({ code: 'ERR_TIMEOUT' }), 'but when it called once more of ERR_TIMEOUT of rank 2'],
    ['another rank', again({ blamed: 0 }), 'but when it called once more of ERR_PEER_LOST of rank 0'],
  ])('and is told of %s', (_, told, words) => {
    expect(stays(told)).toEqual([`rank 1 told of ERR_PEER_LOST of rank 2, ${words}`]);
  });

  test('and is kept waiting', () => {
    expect(stays(again({ ms: 5_000 }))).toEqual(['rank 1 called once more, and was told after 5000 ms only']);
  });

  test('and does not call', () => {
    expect(stays()).toEqual(['rank 1 failed, but did not call once more']);
  });
});

test('a rank that leaves only when its neighbour ends', () => {
  const told = [
    [...steps(STEPS), { done: true, at: 200 }],
    [...steps(STEPS), { done: true, at: 200 }],
  ];
  const ends = (...endedAt: number[]) => wrongs({ kind: 'kill', struck: [], leaves: ['close', 'stay'], endedAt }, told);
  expect(ends(200 + ALLOWED_MS, 9_000)).toEqual([]);
  expect(ends(201 + ALLOWED_MS, 9_000)).toEqual([`rank 0 took ${ALLOWED_MS + 1} ms to leave`]);
});

test('an error though nothing had struck', () => {
  expect(wrongs({ ...killed, isStruck: false }, [survivor, survivor, [...steps(4), lost(2)]])).toEqual(
    [0, 1, 2].map(rank => `rank ${rank} told of ERR_PEER_LOST: Rank is gone.`),
  );
});

describe('an elastic run', () => {
  const life = (pid: number, role: string, ...facts: object[]) => [{ pid }, { role }, ...facts];
  const whole = life(1, 'member', ...steps(STEPS), { done: true });
  const elastic = (told: object[][], more: object = {}) =>
    elasticViolations({ number: 0, steps: STEPS } as object as Plan, {
      ...{ reports: told.map(reportOf), struck: [{ rank: 1, pid: 2, at: 0 }] },
      ...{ toldMs: [2_000], launcherEnd: 0, overdue: [], left: [], ...more },
    });
  const struck = life(2, 'member', ...steps(4));
  const filesOpen = (generation: number, worldSize: number, ...counts: number[]) =>
    counts.map(descriptors => ({ descriptors, generation, worldSize }));

  test('whose rings have more links, or close late, or open a file once is as it should be', () => {
    const rings = [filesOpen(0, 2, 43), filesOpen(1, 4, 54, 53), filesOpen(2, 3, 60, 55), filesOpen(3, 2, 44)];
    expect(elastic([[...whole, ...rings.flat()], struck])).toEqual([]);
  });

  test('that comes to its end is as it should be', () => {
    expect(elastic([whole, struck])).toEqual([]);
    expect(elastic([whole, [...struck, ...life(3, 'newcomer', ...steps(10, 10), { done: true })]])).toEqual([]);
    // What only the lost rank had done is done again.
    expect(elastic([whole, [...struck, { step: 4, hash: 'lost' }]])).toEqual([]);
  });

  test.each([
    ['a launcher that fails', [whole, struck], { launcherEnd: 1 }, 'the launcher ended with 1'],
    ['a long halt', [whole, struck], { toldMs: [60_000] }, 'the others did their next step after 60000 ms'],
    [
      'a survivor that does not end',
      [life(1, 'member', ...steps(9)), struck],
      {},
      'process 0 of rank 0 did not come to the end',
    ],
    [
      'a step that is lost',
      [life(1, 'member', ...steps(4), ...steps(STEPS - 5, 5), { done: true }), struck],
      {},
      'process 0 of rank 0 did step 5 after step 3',
    ],
    [
      'an update twice',
      [[...whole, { updates: 9, after: 7 }], struck],
      {},
      'process 0 of rank 0 had got 9 updates after step 7',
    ],
    [
      'other weights',
      [whole, [...struck, ...life(3, 'newcomer', { step: STEPS - 1, hash: 'other' }, { done: true })]],
      {},
      `after step ${STEPS - 1} process 1 of rank 1 has other weights than process 0 of rank 0`,
    ],
    [
      'a file that each ring leaves open',
      [[...whole, ...filesOpen(0, 4, 50, 52), ...filesOpen(1, 3, 55, 54)], struck],
      {},
      'process 0 of rank 0 had 54 files open in ring 1, and 52 in ring 0',
    ],
    ['a file that is left', [whole, struck], { left: ['a file is there'] }, 'a file is there'],
  ])('with %s', (_, told, more, wrong) => {
    expect(elastic(told, more)).toEqual([wrong]);
  });
});
