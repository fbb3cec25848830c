import { agreedValues, readRankOptions } from '../../src/environment/rank-options';
import { Coordinator, type MembershipPolicy } from '../../src/rendezvous/coordinator';
import { staticPolicy } from '../../src/rendezvous/rendezvous';
import { PROTOCOL_VERSION } from '../../src/wire/frame';
import type { RendezvousMessage } from '../../src/wire/rendezvous-message';
import { beStoppedFor } from '../support/stopped-process';

const NONE = readRankOptions({}, {});
const AGREED = agreedValues(NONE);
const RANKS = 4;
const STATIC_MS = 3_000;

type Join = RendezvousMessage & { kind: 'join' };

/** A coordinator, and what it says to each rank. Those of a static run have less time than they ask for. */
function meeting({
  mayForm = (): boolean => true,
  isElastic = true,
  needsKeys = false,
  stallMs = 0,
  worldSize = RANKS,
} = {}) {
  const said: string[] = [];
  const formed: { generation: number; members: readonly number[] }[] = [];
  const absent: (readonly number[])[] = [];
  const unconnected: { members: readonly number[]; ring: readonly number[] }[] = [];
  const elastic: MembershipPolicy = {
    holder: 'the launcher',
    isElastic: true,
    mayForm,
    waitMs: (_, patienceMs) => patienceMs,
    onFormed: (generation, members) => formed.push({ generation, members }),
    onAbsent: members => void absent.push(members),
    onUnconnected: (members, ring) => void unconnected.push({ members, ring }),
  };
  const policy = isElastic ? elastic : staticPolicy(worldSize, STATIC_MS, needsKeys);
  const run = { worldSize, runId: 'run', agreed: AGREED } as const;
  const stallReport = { stallMs, say: (line: string) => void said.push(line) };
  const coordinator = new Coordinator({ ...run, needsKeys, policy, stallReport });
  const heard = new Map<number, RendezvousMessage[]>();
  /** By rank: how often it has come. */
  const comings = new Map<number, number>();
  /** A message that names no rank comes from `speaker`. */
  const say = (message: RendezvousMessage, speaker = 'rank' in message ? message.rank : 0, line = lineOf(speaker)) => {
    const tell = (answer: RendezvousMessage) => heard.set(speaker, [...(heard.get(speaker) ?? []), answer]);
    coordinator.hear(message, { id: line, tell });
  };
  const lineOf = (rank: number, coming = comings.get(rank)) => `${rank}, coming ${coming}`;
  const join = (rank: number, more: Partial<Join> = {}) => {
    comings.set(rank, (comings.get(rank) ?? 0) + 1);
    say({
      ...{
        kind: 'join',
        protocolVersion: PROTOCOL_VERSION,
        runId: 'run',
        worldSize: RANKS,
        rank,
        hostId: `host ${rank}`,
      },
      ...{ agreed: AGREED, publicKey: `key ${rank}`, newcomer: false, admits: false, patienceMs: 5_000 },
      ...more,
    });
  };
  const listen = (...ranks: number[]) =>
    ranks.forEach(rank => say({ kind: 'listening', rank, endpoint: `at ${rank}` }));
  const connect = (...ranks: number[]) => ranks.forEach(rank => say({ kind: 'connected', rank, lanes: true }));
  /** What that rank has heard since it was asked last. */
  const hear = (rank: number) => {
    const messages = heard.get(rank) ?? [];
    heard.delete(rank);
    return messages;
  };
  const form = (...ranks: number[]) => {
    ranks.forEach(rank => join(rank));
    listen(...ranks);
    connect(...ranks);
    ranks.forEach(hear);
  };
  return { coordinator, formed, absent, unconnected, said, join, say, lineOf, listen, connect, hear, form };
}

/** A {@link WakingTimer} acts in the next turn of the event loop, which Jest puts a millisecond later. */
const pass = (ms: number) => jest.advanceTimersByTime(ms + 1);

beforeEach(() => jest.useFakeTimers());
afterEach(() => {
  jest.useRealTimers();
  jest.restoreAllMocks();
});

test('what a member still says on the line of an attempt that is over counts for nothing', () => {
  const { formed, join, say, lineOf, listen, connect, hear } = meeting();
  [0, 1, 2, 3].forEach(rank => join(rank));
  join(3); // it comes again, and so do the others
  [0, 1, 2].forEach(rank => join(rank));
  [0, 1, 2, 3].forEach(hear);
  listen(0, 1, 2);
  say({ kind: 'listening', rank: 3, endpoint: 'where it was before' }, 3, lineOf(3, 1));
  expect(hear(0)).toEqual([]);
  listen(3);
  expect(hear(0)).toMatchObject([{ kind: 'start', endpoints: ['at 0', 'at 1', 'at 2', 'at 3'] }]);
  connect(0, 1, 2);
  say({ kind: 'connected', rank: 3, lanes: true }, 3, lineOf(3, 1));
  expect(formed).toEqual([]);
  connect(3);
  expect(formed).toEqual([{ generation: 1, members: [0, 1, 2, 3] }]);
});

test('what is no message ends the attempt and names the member, but of a stranger it does not count', () => {
  const { coordinator, formed, join, lineOf, listen, connect, hear } = meeting();
  const hearBroken = (line: string) => coordinator.hearBroken('A frame is none.', { id: line, tell: () => undefined });
  [0, 1, 2].forEach(rank => join(rank));
  hearBroken('a stranger');
  expect(hear(1)).toEqual([]);
  hearBroken(lineOf(2));
  const message = 'Rank 2 broke the protocol of the rendezvous: A frame is none.';
  for (const rank of [0, 1, 2]) expect(hear(rank)).toEqual([{ kind: 'refuse', code: 'ERR_PROTOCOL', message }]);
  [0, 1, 2, 3].forEach(rank => join(rank));
  listen(0, 1, 2, 3);
  connect(0, 1, 2, 3);
  hearBroken(lineOf(2)); // the ring has formed
  expect(formed).toHaveLength(1);
  [0, 1, 2, 3].forEach(hear);
  expect(hear(0)).toEqual([]);
});

test('all come, learn of each other in the order of members, and connect', () => {
  const { formed, join, listen, connect, hear } = meeting();
  [3, 1, 0].forEach(rank => join(rank));
  expect(hear(3)).toEqual([]);
  join(2);
  const roster = {
    ...{
      kind: 'roster',
      hostIds: ['host 0', 'host 1', 'host 2', 'host 3'],
      members: [0, 1, 2, 3],
      generation: 0,
    },
    publicKeys: ['key 0', 'key 1', 'key 2', 'key 3'],
  };
  for (const rank of [0, 1, 2, 3]) expect(hear(rank)).toEqual([roster]);
  listen(2, 1, 0, 3);
  const [start] = hear(1);
  expect(start).toMatchObject({ kind: 'start', endpoints: ['at 0', 'at 1', 'at 2', 'at 3'] });
  for (const rank of [0, 2, 3]) expect(hear(rank)).toEqual([start]);
  connect(0, 1, 2);
  expect(hear(0)).toEqual([]);
  expect(formed).toEqual([]);
  connect(3);
  for (const rank of [0, 1, 2]) expect(hear(rank)).toEqual([{ kind: 'formed', lanes: true }]);
  expect(formed).toEqual([{ generation: 0, members: [0, 1, 2, 3] }]);
});

test('if one rank lacks a lane, all are told that not all have lanes', () => {
  const { join, say, listen, connect, hear } = meeting();
  [0, 1, 2, 3].forEach(rank => join(rank));
  listen(0, 1, 2, 3);
  [0, 1, 2, 3].forEach(hear);
  connect(0, 1, 2);
  say({ kind: 'connected', rank: 3, lanes: false });
  for (const rank of [0, 1, 2, 3]) expect(hear(rank)).toEqual([{ kind: 'formed', lanes: false }]);
});

test('a loss: those who are left form the next generation, with new ranks', () => {
  const { coordinator, formed, join, listen, connect, hear, form } = meeting();
  form(0, 1, 2, 3);
  join(3); // some hear of it before the coordinator does
  join(0);
  coordinator.lose(2, 'rank 2 ended');
  join(1);
  expect(hear(3)).toMatchObject([{ kind: 'roster', members: [0, 1, 3], generation: 1 }]);
  listen(0, 1, 3);
  connect(0, 1, 3);
  expect(formed[1]).toEqual({ generation: 1, members: [0, 1, 3] });
});

test('the last of those who are lost may be what the others wait for', () => {
  const { coordinator, join, hear, form } = meeting();
  form(0, 1, 2, 3);
  [0, 1].forEach(rank => join(rank));
  coordinator.lose(2, 'rank 2 ended');
  expect(hear(0)).toEqual([]);
  coordinator.lose(3, 'rank 3 ended');
  expect(hear(0)).toMatchObject([{ kind: 'roster', members: [0, 1], generation: 1 }]);
});

test('a loss while the ring forms: the attempt is over for all, and the next has another generation', () => {
  const { coordinator, join, listen, hear } = meeting();
  [0, 1, 2, 3].forEach(rank => join(rank));
  listen(0, 1, 3);
  [0, 1, 3].forEach(hear);
  coordinator.lose(2, 'rank 2 ended');
  for (const rank of [0, 1, 3]) expect(hear(rank)).toMatchObject([{ kind: 'refuse', code: 'ERR_PEER_LOST' }]);
  [0, 1, 3].forEach(rank => join(rank));
  expect(hear(1)).toMatchObject([{ kind: 'roster', members: [0, 1, 3], generation: 1 }]);
});

test('a member that comes again while the others are called ends the attempt for all', () => {
  const { join, listen, hear, connect, formed } = meeting();
  [0, 1, 2, 3].forEach(rank => join(rank));
  listen(0, 1, 2, 3);
  connect(0);
  [0, 1, 2, 3].forEach(hear);
  join(1);
  hear(1);
  for (const rank of [0, 2, 3]) expect(hear(rank)).toMatchObject([{ kind: 'refuse', code: 'ERR_PEER_LOST' }]);
  [0, 2, 3].forEach(rank => join(rank));
  expect(hear(1)).toMatchObject([{ generation: 1, members: [0, 1, 2, 3] }]);
  expect(formed).toEqual([]);
});

test('a newcomer waits until somebody lets it in, however often the ring is formed anew', () => {
  const { coordinator, join, say, listen, connect, hear, form, formed } = meeting();
  form(0, 1, 2, 3);
  coordinator.lose(2, 'rank 2 ended');
  join(2, { newcomer: true });
  form(0, 1, 3);
  coordinator.lose(3, 'rank 3 ended');
  form(0, 1);
  expect(hear(2)).toEqual([]);
  say({ kind: 'ask', rank: 0 });
  expect(hear(0)).toEqual([{ kind: 'waiting', count: 1 }]);
  join(0, { admits: true });
  join(1);
  expect(hear(2)).toMatchObject([{ kind: 'roster', members: [0, 1, 2], generation: 3 }]);
  listen(0, 1, 2);
  connect(0, 1, 2);
  expect(formed.at(-1)).toEqual({ generation: 3, members: [0, 1, 2] });
  say({ kind: 'ask', rank: 0 });
  expect(hear(0).at(-1)).toEqual({ kind: 'waiting', count: 0 });
});

test('a newcomer that comes again, as nobody gave it anything, waits again, and the others form a ring without it', () => {
  const { coordinator, join, say, hear, form } = meeting();
  form(0, 1, 2, 3);
  coordinator.lose(2, 'rank 2 ended');
  join(2, { newcomer: true });
  join(0, { admits: true });
  join(1);
  join(3);
  expect(hear(2)).toMatchObject([{ members: [0, 1, 2, 3] }]);
  join(2, { newcomer: true });
  [0, 1, 3].forEach(hear);
  [0, 1, 3].forEach(rank => join(rank));
  expect(hear(0)).toMatchObject([{ members: [0, 1, 3] }]);
  say({ kind: 'ask', rank: 1 });
  expect(hear(1).at(-1)).toEqual({ kind: 'waiting', count: 1 });
});

test('members that are absent when patience is at its end are named, of the first ring and of a later one', () => {
  const { absent, join, form } = meeting();
  [0, 1].forEach(rank => join(rank));
  pass(5_000);
  expect(absent).toEqual([[2, 3]]);
  form(2, 3);
  [0, 1, 3].forEach(rank => join(rank));
  pass(4_999);
  expect(absent).toEqual([[2, 3]]);
  pass(1);
  expect(absent).toEqual([[2, 3], [2]]);
});

test('the time in which the coordinator itself was stopped, perhaps with all members, is not theirs', () => {
  const { absent, join, listen } = meeting();
  [0, 1, 3].forEach(rank => join(rank));
  pass(3_000);
  beStoppedFor(3_600_000);
  pass(1_900);
  join(2);
  listen(0, 1, 2);
  pass(4_900);
  beStoppedFor(61_000);
  listen(3);
  pass(1_000);
  expect(absent).toEqual([]);
});

test('a member that was called and does not say where it listens is named', () => {
  const { absent, join, listen } = meeting();
  [0, 1, 2, 3].forEach(rank => join(rank));
  listen(0, 1, 3);
  pass(5_000);
  expect(absent).toEqual([[2]]);
});

test('a member that dies while it waits for the others is not called', () => {
  const { coordinator, join, hear, form } = meeting();
  form(0, 1, 2, 3);
  coordinator.lose(3, 'rank 3 ended');
  join(0);
  coordinator.lose(0, 'rank 0 ended');
  [1, 2].forEach(rank => join(rank));
  expect(hear(1)).toMatchObject([{ kind: 'roster', members: [1, 2] }]);
});

test('ranks that do not exist may leave without end: nothing is noted of them', () => {
  const { coordinator, say } = meeting();
  for (let rank = RANKS - 1; rank < RANKS + 1_000; rank++) say({ kind: 'leave', rank });
  expect(coordinator['left']).toEqual(new Set([RANKS - 1]));
});

test('a member that leaves is not waited for, and may not come again', () => {
  const { join, say, hear, form } = meeting();
  form(0, 1, 2, 3);
  [0, 1, 3].forEach(rank => join(rank));
  say({ kind: 'leave', rank: 2 });
  expect(hear(0)).toMatchObject([{ members: [0, 1, 3] }]);
  join(2);
  expect(hear(2)).toMatchObject([{ kind: 'refuse', code: 'ERR_RENDEZVOUS_REFUSED' }]);
});

describe.each([
  ['a static run', false],
  ['an elastic run', true],
])('in %s', (_, isElastic) => {
  test.each([
    ['another run', { runId: 'other' }],
    ['another size', { worldSize: 5 }],
    ['another encryption', { agreed: agreedValues({ ...NONE, encryption: 'on' }) }],
    ['another link rate', { agreed: agreedValues({ ...NONE, linkRate: '100mbit' }) }],
    ['nothing of what ranks agree on', { agreed: [] }],
    ['a rank out of range', { rank: 4 }],
    ['another version', { protocolVersion: PROTOCOL_VERSION + 1 }],
    ['no key where one is needed', { publicKey: 'too short' }],
  ])('%s is refused', (_, wrong: Partial<Join>) => {
    const { join, hear } = meeting({ isElastic, needsKeys: 'publicKey' in wrong });
    join(wrong.rank ?? 0, wrong);
    expect(hear(wrong.rank ?? 0)).toMatchObject([{ kind: 'refuse', code: 'ERR_RENDEZVOUS_REFUSED' }]);
  });

  const refusal = { kind: 'refuse', code: 'ERR_ADDRESS_IN_USE', message: 'Rank 1 cannot listen: no port.' } as const;

  test('all hear why a member can go no further', () => {
    const { join, say, listen, hear } = meeting({ isElastic });
    [0, 1, 2, 3].forEach(rank => join(rank));
    [0, 1, 2, 3].forEach(hear);
    listen(0, 2);
    say(refusal, 1);
    for (const rank of [0, 1, 2, 3]) expect(hear(rank)).toEqual([refusal]);
  });

  test('a stranger can end nothing, nor can a member when the ring stands', () => {
    const { join, say, listen, connect, hear } = meeting({ isElastic });
    [0, 1, 2, 3].forEach(rank => join(rank));
    listen(0, 1, 2, 3);
    say(refusal, 1, 'a line of its own');
    connect(0, 1, 2, 3);
    say(refusal, 1);
    for (const rank of [0, 1, 2, 3]) expect(hear(rank).map(({ kind }) => kind)).toEqual(['roster', 'start', 'formed']);
  });

  test('all hear which members do not connect', () => {
    const { join, listen, connect, hear, absent, unconnected } = meeting({ isElastic });
    [0, 1, 2, 3].forEach(rank => join(rank));
    listen(0, 1, 2, 3);
    connect(0, 3);
    [0, 1, 2, 3].forEach(hear);
    const ms = isElastic ? 5_000 : STATIC_MS;
    pass(ms - 1);
    expect(hear(0)).toEqual([]);
    pass(1);
    const message = expect.stringMatching(
      /^Ranks 1, 2 came to the rendezvous but did not connect .* [35]000 ms/,
    ) as string;
    for (const rank of [0, 1, 2, 3])
      expect(hear(rank)).toEqual([{ kind: 'refuse', code: 'ERR_RENDEZVOUS_TIMEOUT', message }]);
    expect(absent).toEqual([]);
    if (isElastic) expect(unconnected).toEqual([{ members: [1, 2], ring: [0, 1, 2, 3] }]);
  });
});

describe('in a static run', () => {
  test('all members form one ring, and none comes twice', () => {
    const { join, say, lineOf, hear } = meeting({ isElastic: false });
    [0, 1].forEach(rank => join(rank));
    join(1);
    expect(hear(1)).toMatchObject([{ kind: 'refuse', code: 'ERR_RANK_TAKEN' }]);
    [2, 3].forEach(rank => join(rank));
    expect(hear(0)).toMatchObject([{ kind: 'roster', members: [0, 1, 2, 3] }]);
    say({ kind: 'listening', rank: 1, endpoint: 'the first' }, 1, lineOf(1, 1));
    for (const rank of [0, 2, 3]) say({ kind: 'listening', rank, endpoint: `at ${rank}` });
    expect(hear(0)).toMatchObject([{ kind: 'start', endpoints: ['at 0', 'the first', 'at 2', 'at 3'] }]);
  });

  test('rank 0 says which members are missing in each step, after twice as long each time', () => {
    const { said, join, listen, connect } = meeting({ isElastic: false, stallMs: 500 });
    const hear = () => said.splice(0);
    [0, 2].forEach(rank => join(rank));
    pass(499);
    expect(hear()).toEqual([]);
    pass(1);
    expect(hear()).toEqual(['gradring: after 1 s ranks 1, 3 have not come to the rendezvous.']);
    pass(990);
    expect(hear()).toEqual([]);
    pass(10);
    expect(hear()).toEqual(['gradring: after 2 s ranks 1, 3 have not come to the rendezvous.']);
    [1, 3].forEach(rank => join(rank));
    listen(0, 1, 2);
    pass(499);
    expect(hear()).toEqual([]);
    pass(1);
    expect(hear()).toEqual(['gradring: after 1 s rank 3 has not begun to listen.']);
    listen(3);
    connect(0, 1, 2);
    pass(500);
    expect(hear()).toEqual(['gradring: after 1 s rank 3 has not connected to the neighbours.']);
    connect(3);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('it names eight at most', () => {
    const { said, join } = meeting({ isElastic: false, stallMs: 500, worldSize: 64 });
    join(0, { worldSize: 64 });
    pass(500);
    const ranks = 'ranks 1, 2, 3, 4, 5, 6, 7, 8 and 55 more';
    expect(said).toEqual([`gradring: after 1 s ${ranks} have not come to the rendezvous.`]);
  });

  test('it says nothing more when the attempt is over', () => {
    const { said, join, hear } = meeting({ isElastic: false, stallMs: STATIC_MS });
    join(0);
    pass(STATIC_MS);
    expect(hear(0)).toMatchObject([{ kind: 'refuse', code: 'ERR_RENDEZVOUS_TIMEOUT' }]);
    said.splice(0);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('it says nothing with a time of 0', () => {
    const { said, join } = meeting({ isElastic: false });
    join(0);
    pass(STATIC_MS - 1);
    expect(said).toEqual([]);
  });

  test('the deadline counts from the beginning, and all hear which members are missing, and why', () => {
    const { join, hear } = meeting({ isElastic: false });
    join(0);
    join(2, { worldSize: 3 });
    pass(STATIC_MS - 1);
    join(1);
    expect(hear(0)).toEqual([]);
    pass(1);
    const message =
      'Of 4 ranks, ranks 2, 3 did not come to the rendezvous within 3000 ms. Refused: Rank 2 has WORLD_SIZE 3, rank 0 has 4.';
    for (const rank of [0, 1])
      expect(hear(rank)).toEqual([{ kind: 'refuse', code: 'ERR_RENDEZVOUS_TIMEOUT', message }]);
  });

  test('a member that does not say where it listens is missing, too', () => {
    const { join, listen, hear } = meeting({ isElastic: false, needsKeys: false });
    [0, 1, 2, 3].forEach(rank => join(rank));
    listen(0, 1, 2);
    hear(0);
    pass(STATIC_MS);
    expect(hear(0)).toMatchObject([{ message: expect.stringMatching(/^Of 4 ranks, rank 3 did not come/) as string }]);
  });

  test('no member leaves, is a newcomer, or lets one in', () => {
    const { join, say, hear } = meeting({ isElastic: false });
    [0, 1, 2].forEach(rank => join(rank, { newcomer: true, admits: true }));
    say({ kind: 'leave', rank: 3 });
    expect(hear(0)).toEqual([]);
    join(3);
    expect(hear(0)).toMatchObject([{ kind: 'roster', members: [0, 1, 2, 3], generation: 0 }]);
  });
});

test('too few for another ring wait for their end', () => {
  let isEnough = true;
  const { coordinator, join, hear, form } = meeting({ mayForm: () => isEnough });
  form(0, 1, 2, 3);
  isEnough = false;
  coordinator.lose(2, 'rank 2 ended');
  [0, 1, 3].forEach(rank => join(rank));
  expect(hear(0)).toEqual([]);
});

test('after a reset all members form the next ring', () => {
  const { coordinator, join, hear, form } = meeting();
  form(0, 1, 2, 3);
  coordinator.lose(2, 'rank 2 ended');
  coordinator.reset();
  [0, 1, 2, 3].forEach(rank => join(rank));
  expect(hear(2)).toMatchObject([{ members: [0, 1, 2, 3], generation: 1 }]);
});
