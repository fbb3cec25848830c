import { type Unit, Units, type UnitRing } from '../../src/communicator/units';
import { GradringError } from '../../src/errors';
import { waitForPromise, type Work } from '../../src/work';

const lost = () => new GradringError('ERR_PEER_LOST', 'Rank 1 is gone.');

interface OtherReport {
  readonly isNewcomer?: boolean;
  readonly isLeaving?: boolean;
  readonly done: number;
  readonly lastName?: string;
  readonly lastResult?: unknown;
  readonly failedName?: string;
  readonly isAfterCommit?: boolean;
  readonly isAdmitting?: boolean;
}

/** The report of a rank that has done nothing. */
const NOTHING = {
  ...{ isNewcomer: false, isLeaving: false, isAfterCommit: false, isAdmitting: false },
  ...{ done: 0, lastName: 'nothing', lastResult: null },
};

/** One rank's units, in rings whose other rank reports what the test says, ring by ring. */
function unitsBeside(...others: (OtherReport | 'is lost, too' | 'does not come')[]) {
  const joins: unknown[] = [];
  const own: unknown[] = [];
  const ring: UnitRing = {
    rejoin: join => {
      joins.push(join);
      return true;
    },
    allGather: bytes => {
      const report = JSON.parse(new TextDecoder().decode(bytes)) as OtherReport;
      if (joins.length === 0 && !report.isNewcomer) return [bytes, bytes]; // in the first ring all begin the same
      own.push(report);
      const other = others.shift()!;
      if (other === 'is lost, too') throw lost();
      if (other === 'does not come') throw new GradringError('ERR_TIMEOUT', 'Rank 1 has not called it.');
      const theirs = { ...NOTHING, ...other };
      return [bytes, new TextEncoder().encode(JSON.stringify(theirs))];
    },
    awaitOthers: jest.fn(async () => undefined),
    evenIfLeaving: run => run(),
  };
  return { units: new Units(ring), ring, joins, own };
}

/** Fails the first so many times. */
function failing(times: number, result = 'mine') {
  let runs = 0;
  const run = () => {
    if (runs++ < times) throw lost();
    return result;
  };
  return Object.assign(run, { count: () => runs });
}

/** A unit whose `run` is a plain function, asynchronous or not. */
function plain<T>({ run, ...unit }: Omit<Unit<T>, 'run'> & { readonly run: () => T | Promise<T> }): Unit<T> {
  const work = function* (): Work<T> {
    const result = run();
    return result instanceof Promise ? yield* waitForPromise(result) : result;
  };
  return { ...unit, run: work };
}

test('where the run is not elastic, a unit is just run, and its failure is the caller’s', async () => {
  const units = new Units(undefined);
  expect(units.runSync(plain({ name: 'a', run: () => 7 }))).toBe(7);
  await expect(units.run(plain({ name: 'a', run: failing(1) }))).rejects.toThrow('Rank 1 is gone.');
});

describe.each(['run', 'runSync'] as const)('%s', how => {
  test('no rank has done it: it is run again', async () => {
    const { units } = unitsBeside({ done: 0, failedName: 'a' });
    const run = failing(1);
    expect(await units[how](plain({ name: 'a', run }))).toBe('mine');
    expect(run.count()).toBe(2);
  });

  test('the other has done it: this rank takes the result, and what JSON cannot hold', async () => {
    const { units } = unitsBeside({ done: 1, lastName: 'a', lastResult: 'theirs', failedName: 'b' });
    const share = jest.fn();
    const run = failing(9);
    expect(await units[how](plain({ name: 'a', run, share }))).toBe('theirs');
    expect(run.count()).toBe(1);
    expect(share.mock.calls).toEqual([[1, true, 'theirs']]);
  });

  test('this rank has done it, and the other not: it gives, and runs its own again', async () => {
    const { units } = unitsBeside({ done: 0, failedName: 'a' });
    const share = jest.fn();
    await units[how](plain({ name: 'a', run: () => 'mine', share }));
    expect(await units[how](plain({ name: 'b', run: failing(1, 'next') }))).toBe('next');
    expect(share.mock.calls).toEqual([[0, false, 'mine']]);
  });

  test('a loss while the ranks compare is another one', async () => {
    const { units, joins } = unitsBeside('is lost, too', { done: 0, failedName: 'a' });
    expect(await units[how](plain({ name: 'a', run: failing(1) }))).toBe('mine');
    expect(joins).toHaveLength(2);
  });

  test('what is no loss ends it', async () => {
    const { units, joins } = unitsBeside();
    const run = () => {
      throw new GradringError('ERR_NON_FINITE', 'NaN');
    };
    await expect(async () => units[how](plain({ name: 'a', run }))).rejects.toThrow('NaN');
    expect(joins).toEqual([]);
  });

  test.each([
    ['more by two', { done: 2, lastName: 'b' }],
    ['something else', { done: 1, lastName: 'b' }],
    ['something else by now', { done: 0, failedName: 'b' }],
  ])('the other has done %s: an error', async (_, other) => {
    const { units } = unitsBeside(other);
    await expect(async () => units[how](plain({ name: 'a', run: failing(1) }))).rejects.toMatchObject({
      code: 'ERR_COLLECTIVE_MISMATCH',
    });
  });
});

test('the result of a unit that has none is undefined on the rank that takes it, too', async () => {
  const { units, own } = unitsBeside({ done: 0, failedName: 'a' });
  await units.run(plain({ name: 'a', run: () => undefined }));
  await units.run(plain({ name: 'b', run: failing(1) }));
  expect(own).toMatchObject([{ done: 1, lastName: 'a' }]);
  expect(own[0]).not.toHaveProperty('lastResult');
});

test('a unit within another is part of it', async () => {
  const { units, own } = unitsBeside({ done: 0, failedName: 'outer' });
  const inner = failing(1);
  const run = async () => units.run(plain({ name: 'inner', run: inner }));
  expect(await units.run(plain({ name: 'outer', run }))).toBe('mine');
  expect(own).toMatchObject([{ done: 0, failedName: 'outer' }]);
});

test('what must not be run again with a unit is refused within one', async () => {
  const { units } = unitsBeside();
  const within = (run: () => unknown) => units.run(plain({ name: 'outer', run: async () => run() }));
  await expect(within(() => units.checkOutside('A step'))).rejects.toThrow('A step cannot be part of allOrNone');
  const admission = { countWaiting: async () => 0, welcome: async () => undefined };
  await expect(within(() => units.admit(admission))).rejects.toThrow('A commit cannot be part of allOrNone');
  expect(() => units.checkOutside('A step')).not.toThrow();
});

test('units that are not awaited run one after the other', async () => {
  const { units } = unitsBeside();
  const seen: string[] = [];
  const slow = async () => {
    await new Promise(resolve => setTimeout(resolve, 20));
    seen.push('slow');
  };
  await Promise.all([
    units.run(plain({ name: 'slow', run: slow })),
    units.run(plain({ name: 'fast', run: async () => void seen.push('fast') })),
  ]);
  expect(seen).toEqual(['slow', 'fast']);
});

test('newcomers are let in within a unit, and known as long as the ring lasts', async () => {
  const { units, own, joins } = unitsBeside(
    { done: 1, lastName: 'commit', isNewcomer: true },
    { done: 1, lastName: 'commit', failedName: 'welcome', isAdmitting: true },
  );
  const welcome = jest.fn(async () => {
    throw lost();
  });
  await units.admit({ countWaiting: async () => 1, welcome });
  // In the first ring the other is a newcomer, which is lost. In the second it has let newcomers in, which are gone.
  expect(welcome.mock.calls).toEqual([[0]]);
  expect(joins).toEqual([
    { newcomer: false, admits: true },
    { newcomer: false, admits: false },
  ]);
  const within = { isAfterCommit: true, failedName: 'welcome', isAdmitting: true };
  expect(own).toMatchObject([within, within]);
});

test('if no newcomer waits, the ring stays as it is', async () => {
  const { units, joins } = unitsBeside();
  const welcome = jest.fn();
  await units.admit({ countWaiting: async () => 0, welcome });
  expect([welcome.mock.calls, joins]).toEqual([[], []]);
});

test('a rank that finds newcomers in the ring when it has counted gives them what they lack', async () => {
  // The other rank has let them in after the commit, in which this rank has failed.
  const admitting = { done: 1, lastName: 'commit', lastResult: 1, failedName: 'welcome', isAdmitting: true };
  const { units, ring, joins } = unitsBeside(admitting);
  const { allGather } = ring;
  ring.allGather = bytes => {
    const reports = allGather(bytes);
    const newcomer = { ...NOTHING, isNewcomer: true };
    return joins.length === 0 ? reports : [new TextEncoder().encode(JSON.stringify(newcomer)), ...reports];
  };
  const welcome = jest.fn(async () => undefined);
  await units.admit({ countWaiting: async () => Promise.reject(lost()), welcome });
  expect(welcome.mock.calls).toEqual([[1]]); // rank 0 is the newcomer
  expect(joins).toEqual([{ newcomer: false, admits: false }]);
});

test.each(['', 'null', '[]', '{"done":-1}', '{"done":"7"}', JSON.stringify({ ...NOTHING, done: 1.5 })])(
  'a rank that reports %s is named, and nothing is taken from it',
  report => {
    const { units, ring } = unitsBeside();
    jest.spyOn(ring, 'allGather').mockImplementation(own => [own, new TextEncoder().encode(report)]);
    const failure = expect.objectContaining({ code: 'ERR_PROTOCOL', rank: 1 }) as Error;
    expect(() => units.runSync(plain({ name: 'a', run: () => 'mine' }))).toThrow(failure);
  },
);

test('a result that is none is not taken, and the rank that gives it is named', () => {
  const isResult = (value: unknown): value is string => typeof value === 'string';
  const unit = () => ({ name: 'a', run: failing(1), isResult, share: jest.fn() });
  const [taken, refused] = [unit(), unit()];
  expect(unitsBeside({ done: 1, lastName: 'a', lastResult: 'theirs' }).units.runSync(plain(taken))).toBe('theirs');
  const { units } = unitsBeside({ done: 1, lastName: 'a', lastResult: { length: 6 } });
  const failure = expect.objectContaining({ code: 'ERR_PROTOCOL', rank: 1 }) as Error;
  expect(() => units.runSync(plain(refused))).toThrow(failure);
  expect([taken, refused].map(({ share }) => share.mock.calls.length)).toEqual([1, 0]);
});

test('before the first unit the ranks compare, for others may have lost a rank in a ring that this one never saw', () => {
  const { units, ring } = unitsBeside();
  const allGather = jest.spyOn(ring, 'allGather');
  const run = jest.fn(() => 'mine');
  allGather.mockImplementation(bytes => {
    expect(run).not.toHaveBeenCalled();
    return [bytes, bytes];
  });
  expect(units.runSync(plain({ name: 'a', run }))).toBe('mine');
  expect(allGather).toHaveBeenCalledTimes(1);
  expect(units.runSync(plain({ name: 'b', run }))).toBe('mine');
  expect(allGather).toHaveBeenCalledTimes(1);
});

describe('before it leaves', () => {
  test('a rank waits until the others have done what it has', async () => {
    const { units, ring, own } = unitsBeside();
    await units.awaitOthers();
    expect(ring.awaitOthers).toHaveBeenCalledTimes(1);
    expect(own).toEqual([]);
  });

  test('it gives its last unit to ranks that have lost another in it', async () => {
    const { units, ring } = unitsBeside('is lost, too', { done: 0, failedName: 'a' });
    jest.mocked(ring.awaitOthers).mockRejectedValueOnce(lost());
    const share = jest.fn();
    units.runSync(plain({ name: 'a', run: () => 'mine', share }));
    await units.awaitOthers();
    expect(share.mock.calls).toEqual([[0, false, 'mine']]);
    expect(ring.awaitOthers).toHaveBeenCalledTimes(2);
  });

  test('a failure that is no loss is not waited out', async () => {
    const { units, ring } = unitsBeside();
    const failure = new GradringError('ERR_COLLECTIVE_MISMATCH', 'Something else.');
    jest.mocked(ring.awaitOthers).mockRejectedValueOnce(failure);
    await expect(units.awaitOthers()).rejects.toBe(failure);
    await new Units(undefined).awaitOthers(); // not elastic: there is nothing to do
  });

  test('it does not wait again for ranks that call nothing until the deadline', async () => {
    const { units, ring, joins } = unitsBeside('does not come');
    jest.mocked(ring.awaitOthers).mockRejectedValueOnce(lost());
    await expect(units.awaitOthers()).rejects.toMatchObject({ code: 'ERR_TIMEOUT' });
    expect(joins).toHaveLength(1);
  });

  test('what it has failed in alone, and others have done, it does not do any more', async () => {
    const { units, ring } = unitsBeside({ done: 1, lastName: 'a' });
    jest.mocked(ring.awaitOthers).mockRejectedValueOnce(lost());
    const share = jest.fn();
    const run = () => {
      throw new Error('A mistake of the user.');
    };
    expect(() => units.runSync(plain({ name: 'a', run, share }))).toThrow('A mistake');
    await units.awaitOthers();
    expect(share).not.toHaveBeenCalled();
  });

  test('nor do the others give it to one that leaves', async () => {
    const { units } = unitsBeside({ done: 0, isLeaving: true }, { done: 1, failedName: 'b' });
    const share = jest.fn();
    units.runSync(plain({ name: 'a', run: () => 'mine', share }));
    expect(units.runSync(plain({ name: 'b', run: failing(2, 'next') }))).toBe('next');
    expect(share).not.toHaveBeenCalled();
  });

  test('within a unit, it does not wait for that', async () => {
    const { units } = unitsBeside();
    await units.run(plain({ name: 'a', run: () => units.awaitOthers() }));
  });
});

test('a newcomer is let in after a commit, and goes on as one that has done what the others have', async () => {
  const others = [
    { done: 7, lastName: 'step' },
    { done: 8, lastName: 'commit', isAfterCommit: true },
    { done: 9, failedName: 'next' },
  ] as const;
  const { units, own } = unitsBeside(...others);
  const rejoin = jest.fn(async () => undefined);
  expect(await units.enter(rejoin, root => `from ${root}`)).toBe('from 1');
  expect(rejoin).toHaveBeenCalledTimes(2); // the first ring was not at a commit
  units.runSync(plain({ name: 'next', run: failing(1) }));
  expect(own.at(-1)).toMatchObject({ isNewcomer: false, done: 9 });
});

test('a newcomer that is lost sight of while it receives waits again', async () => {
  const { units } = unitsBeside({ done: 1, isAfterCommit: true }, { done: 5, isAfterCommit: true });
  const receive = failing(1, 'received');
  expect(await units.enter(async () => undefined, receive)).toBe('received');
});
