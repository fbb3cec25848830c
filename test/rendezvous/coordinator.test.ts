import { Coordinator } from '../../src/rendezvous/coordinator';
import { PROTOCOL_VERSION } from '../../src/wire/frame';
import type { RendezvousMessage } from '../../src/wire/rendezvous-message';

const RANKS = 4;

type Join = RendezvousMessage & { kind: 'join' };

/** A coordinator, and what it says to whom. */
function meeting(mayForm = () => true) {
  const formed: { generation: number; members: readonly number[] }[] = [];
  const absent: (readonly number[])[] = [];
  const coordinator = new Coordinator({
    worldSize: RANKS,
    runId: 'run',
    encryption: 'auto',
    algorithm: 'auto',
    mayForm,
    onFormed: (generation, members) => formed.push({ generation, members }),
    onAbsent: members => absent.push(members),
  });
  const heard = new Map<number, RendezvousMessage[]>();
  /** By rank: how often it has come. */
  const comings = new Map<number, number>();
  const say = (message: RendezvousMessage & { rank: number }, coming = comings.get(message.rank)) => {
    const { rank } = message;
    const tell = (answer: RendezvousMessage) => heard.set(rank, [...(heard.get(rank) ?? []), answer]);
    coordinator.hear(message, { id: `${rank}, coming ${coming}`, tell });
  };
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
      ...{ encryption: 'auto', publicKey: `key ${rank}`, newcomer: false, admits: false, patienceMs: 5_000, ...more },
    });
  };
  const listen = (...ranks: number[]) =>
    ranks.forEach(rank => say({ kind: 'listening', rank, endpoint: `at ${rank}` }));
  const stand = (...ranks: number[]) => ranks.forEach(rank => say({ kind: 'standing', rank }));
  /** What that rank has heard since it was asked last. */
  const hear = (rank: number) => {
    const messages = heard.get(rank) ?? [];
    heard.delete(rank);
    return messages;
  };
  const form = (...ranks: number[]) => {
    ranks.forEach(rank => join(rank));
    listen(...ranks);
    stand(...ranks);
    ranks.forEach(hear);
  };
  return { coordinator, formed, absent, join, say, listen, stand, hear, form };
}

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test('what a member still says on the line of an attempt that is over counts for nothing', () => {
  const { formed, join, say, listen, stand, hear } = meeting();
  [0, 1, 2, 3].forEach(rank => join(rank));
  join(3); // it comes again, and so do the others
  [0, 1, 2].forEach(rank => join(rank));
  [0, 1, 2, 3].forEach(hear);
  listen(0, 1, 2);
  say({ kind: 'listening', rank: 3, endpoint: 'where it was before' }, 1);
  expect(hear(0)).toEqual([]);
  listen(3);
  expect(hear(0)).toMatchObject([{ kind: 'start', endpoints: ['at 0', 'at 1', 'at 2', 'at 3'] }]);
  stand(0, 1, 2);
  say({ kind: 'standing', rank: 3 }, 1);
  expect(formed).toEqual([]);
  stand(3);
  expect(formed).toEqual([{ generation: 1, members: [0, 1, 2, 3] }]);
});

test('all come, learn of each other in the order of members, and stand', () => {
  const { formed, join, listen, stand, hear } = meeting();
  [3, 1, 0].forEach(rank => join(rank));
  expect(hear(3)).toEqual([]);
  join(2);
  const roster = {
    ...{
      kind: 'roster',
      hostIds: ['host 0', 'host 1', 'host 2', 'host 3'],
      members: [0, 1, 2, 3],
      generation: 0,
      tree: false,
    },
    publicKeys: ['key 0', 'key 1', 'key 2', 'key 3'],
  };
  for (const rank of [0, 1, 2, 3]) expect(hear(rank)).toEqual([roster]);
  listen(2, 1, 0, 3);
  const [start] = hear(1);
  expect(start).toMatchObject({ kind: 'start', endpoints: ['at 0', 'at 1', 'at 2', 'at 3'] });
  expect(hear(3)).toEqual([start]);
  stand(0, 1, 2);
  expect(formed).toEqual([]);
  stand(3);
  expect(formed).toEqual([{ generation: 0, members: [0, 1, 2, 3] }]);
});

test('a loss: those who are left form the next generation, with new ranks', () => {
  const { coordinator, formed, join, listen, stand, hear, form } = meeting();
  form(0, 1, 2, 3);
  join(3); // some hear of it before the coordinator does
  join(0);
  coordinator.lose(2, 'rank 2 ended');
  join(1);
  expect(hear(3)).toMatchObject([{ kind: 'roster', members: [0, 1, 3], generation: 1 }]);
  listen(0, 1, 3);
  stand(0, 1, 3);
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
  const { join, listen, hear, stand, formed } = meeting();
  [0, 1, 2, 3].forEach(rank => join(rank));
  listen(0, 1, 2, 3);
  stand(0);
  [0, 1, 2, 3].forEach(hear);
  join(1);
  hear(1);
  expect(hear(0)).toEqual([]); // its links stood: it hears of it by them
  for (const rank of [2, 3]) expect(hear(rank)).toMatchObject([{ kind: 'refuse', code: 'ERR_PEER_LOST' }]);
  [0, 2, 3].forEach(rank => join(rank));
  expect(hear(1)).toMatchObject([{ generation: 1, members: [0, 1, 2, 3] }]);
  expect(formed).toEqual([]);
});

test('a newcomer waits until somebody lets it in, however often the ring is formed anew', () => {
  const { coordinator, join, say, listen, stand, hear, form, formed } = meeting();
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
  stand(0, 1, 2);
  expect(formed.at(-1)).toEqual({ generation: 3, members: [0, 1, 2] });
  say({ kind: 'ask', rank: 0 });
  expect(hear(0).at(-1)).toEqual({ kind: 'waiting', count: 0 });
});

test('a newcomer that comes again, as nobody gave it anything, waits again, and the others form a ring without it', () => {
  const { coordinator, join, hear, form } = meeting();
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
  expect(coordinator.waitingCount).toBe(1);
});

test('who is absent when patience is at its end is told of, from the first ring and from a later one', () => {
  const { absent, join, form } = meeting();
  [0, 1].forEach(rank => join(rank));
  jest.advanceTimersByTime(5_000);
  expect(absent).toEqual([[2, 3]]);
  form(2, 3);
  [0, 1, 3].forEach(rank => join(rank));
  jest.advanceTimersByTime(4_999);
  expect(absent).toEqual([[2, 3]]);
  jest.advanceTimersByTime(1);
  expect(absent).toEqual([[2, 3], [2]]);
});

test('who was called and does not say where it listens is told of', () => {
  const { absent, join, listen } = meeting();
  [0, 1, 2, 3].forEach(rank => join(rank));
  listen(0, 1, 3);
  jest.advanceTimersByTime(5_000);
  expect(absent).toEqual([[2]]);
});

test('who dies while it waits for the others is not called', () => {
  const { coordinator, join, hear, form } = meeting();
  form(0, 1, 2, 3);
  coordinator.lose(3, 'rank 3 ended');
  join(0);
  coordinator.lose(0, 'rank 0 ended');
  [1, 2].forEach(rank => join(rank));
  expect(hear(1)).toMatchObject([{ kind: 'roster', members: [1, 2] }]);
});

test('who has another encryption is refused', () => {
  const { join, hear } = meeting();
  join(1, { encryption: 'on' });
  expect(hear(1)).toMatchObject([{ kind: 'refuse', code: 'ERR_RENDEZVOUS_REFUSED' }]);
});

test('who leaves is not waited for, and may not come again', () => {
  const { join, say, hear, form } = meeting();
  form(0, 1, 2, 3);
  [0, 1, 3].forEach(rank => join(rank));
  say({ kind: 'leave', rank: 2 });
  expect(hear(0)).toMatchObject([{ members: [0, 1, 3] }]);
  join(2);
  expect(hear(2)).toMatchObject([{ kind: 'refuse', code: 'ERR_RENDEZVOUS_REFUSED' }]);
});

test.each([
  ['another run', { runId: 'other' }],
  ['another size', { worldSize: 5 }],
  ['a rank out of range', { rank: 4 }],
  ['another version', { protocolVersion: PROTOCOL_VERSION + 1 }],
])('%s is refused', (_, wrong: Partial<Join>) => {
  const { join, hear } = meeting();
  join(wrong.rank ?? 0, wrong);
  expect(hear(wrong.rank ?? 0)).toMatchObject([{ kind: 'refuse', code: 'ERR_RENDEZVOUS_REFUSED' }]);
});

test('too few for another ring wait for their end', () => {
  let isEnough = true;
  const { coordinator, join, hear, form } = meeting(() => isEnough);
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
