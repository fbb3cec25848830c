import { piecesOf } from '../../src/transport/data/frame-assembly';
import { ProgressEngine } from '../../src/transport/data/progress-engine';
import { dataFrame, ScriptedLane, turns } from '../support/lanes';

/** What the engine takes for the time, in ms. */
let now: number;
beforeEach(() => {
  now = 1_000;
  jest.spyOn(performance, 'now').mockImplementation(() => now);
});
afterEach(() => jest.restoreAllMocks());

const frame = (words: string) => piecesOf(Buffer.from('header'), Buffer.from(words));

/** Two lanes that an engine moves: each try to move anything takes so many ms. */
function engineOf(hasCore: boolean, tryMs = 0): [ScriptedLane, ScriptedLane] {
  const lanes = [ScriptedLane.bothEnds()[0], ScriptedLane.bothEnds()[0]] as const;
  const engine = new ProgressEngine(lanes, hasCore);
  for (const lane of lanes) {
    lane.onTry = () => (now += tryMs);
    const fail = (error?: Error) => {
      throw error ?? new Error('That was not to happen.');
    };
    lane.attach({ accept: dataFrame, onWait: () => engine.run(), onBroken: fail, onLost: fail });
    lane.other.attach({ accept: dataFrame, onWait: fail, onBroken: fail, onLost: fail });
  }
  return [...lanes];
}

/** Has something happen at one of a lane's tries. */
function atTry(lane: ScriptedLane, number: number, happens: () => void): void {
  const { onTry } = lane;
  lane.onTry = () => {
    onTry();
    if (lane.tries === number) happens();
  };
}

/** Settles when a lane is about to wait there. */
const aboutToWait = (lane: ScriptedLane, at: 'poll' | 'event loop') =>
  new Promise<void>(resolve => (lane.onWaiting = where => where === at && resolve()));

describe.each([true, false])('a core each: %s', hasCore => {
  test('a lane that waits for a frame is tried again and again', async () => {
    const [lane] = engineOf(hasCore);
    atTry(lane, 5, () => lane.put(...frame('it')));
    expect(String((await lane.receive()).body)).toBe('it');
    expect(lane.waits).toEqual(hasCore ? [] : ['poll', 'poll']);
  });

  test('a lane that waits for room is tried again and again', async () => {
    const [lane] = engineOf(hasCore);
    lane.other.capacity = 50;
    atTry(lane, 5, () => (lane.other.capacity = Infinity));
    const sent = lane.send(Buffer.from('header'), Buffer.from('it'));
    expect([lane.waitsForRoom, lane.waitsForFrame]).toEqual([true, false]);
    await sent;
    expect(lane.waitsForRoom).toBe(false);
    expect(String((await lane.other.receive()).body)).toBe('it');
  });

  test('what comes on a lane that nobody waits for is read before the thread sleeps', async () => {
    const [lane, beside] = engineOf(hasCore, 0.1);
    beside.put(...frame('beside'));
    atTry(beside, 1, () => lane.put(...frame('it'))); // the ranks wait in a circle
    expect(String((await lane.receive()).body)).toBe('it');
    const { tries } = beside;
    expect(String((await beside.receive()).body)).toBe('beside');
    expect(beside.tries).toBe(tries); // it was there
  });

  test('of a lane that nobody waits for no more is read than may be held', async () => {
    const [lane, beside] = engineOf(hasCore, 0.05);
    const large = piecesOf(Buffer.from('header'), Buffer.alloc(600_000));
    for (let i = 0; i < 10; i++) beside.put(...large);
    atTry(lane, 50, () => lane.put(...frame('it')));
    await lane.receive();
    const { tries } = beside;
    for (let i = 0; i < 4; i++) await beside.receive();
    expect(beside.tries).toBe(tries);
    await beside.receive();
    expect(beside.tries).toBeGreaterThan(tries);
  });

  test('the event loop turns meanwhile', async () => {
    const [lane] = engineOf(hasCore, 0.2);
    let turned = 0;
    const onTurn = () => {
      turned += 1;
      if (turned < 5) setImmediate(onTurn);
      else lane.put(...frame('it'));
    };
    setImmediate(onTurn);
    expect(String((await lane.receive()).body)).toBe('it');
    expect(lane.waits).not.toContain('event loop'); // it would have been woken by nobody
  });

  test('after 20 ms in vain the event loop has the thread, until the lane is woken', async () => {
    const [lane] = engineOf(hasCore, 1);
    const waiting = aboutToWait(lane, 'event loop');
    const received = lane.receive();
    await waiting;
    expect(now).toBeGreaterThan(1_020);
    expect(now).toBeLessThan(1_030);
    const { tries } = lane;
    lane.put(...frame('it'));
    await turns(20);
    expect(lane.tries).toBe(tries);
    lane.wake();
    expect(String((await received).body)).toBe('it');
  });

  test('20 ms are counted from when anything moved last', async () => {
    const [lane, beside] = engineOf(hasCore, 1);
    atTry(lane, 10, () => lane.put(...frame('first')));
    const received = lane.receive().then(() => lane.receive());
    const waiting = aboutToWait(lane, 'event loop');
    await waiting;
    expect(now).toBeGreaterThan(1_030);
    lane.put(...frame('second'));
    beside.wake(); // any lane does
    expect(String((await received).body)).toBe('second');
  });

  test.each(['poll', 'event loop'] as const)(
    'what comes just before the thread sleeps in the %s is not missed',
    async at => {
      const [lane] = engineOf(hasCore, 1);
      lane.onWaiting = where => {
        if (where === at) lane.put(...frame('it'));
      };
      expect(String((await lane.receive()).body)).toBe('it');
      expect(lane.waits.filter(where => where === at)).toHaveLength(1);
    },
  );

  test('room that is made just before the thread sleeps is not missed', async () => {
    const [lane] = engineOf(hasCore, 1);
    lane.other.capacity = 0;
    lane.onWaiting = where => {
      if (where === 'event loop') lane.other.capacity = Infinity;
    };
    await lane.send(Buffer.from('header'), Buffer.alloc(0));
  });

  test('bytes that only the event loop brings are not polled for', async () => {
    const [lane, beside] = engineOf(hasCore, 0.1);
    lane.isDirect = false;
    const waiting = aboutToWait(lane, 'event loop');
    const received = lane.receive();
    await waiting;
    expect(now).toBeLessThan(1_002);
    expect([...lane.waits, ...beside.waits]).toEqual(['event loop', 'event loop']);
    lane.put(...frame('it'));
    lane.wake();
    expect(String((await received).body)).toBe('it');
  });

  test('when nothing is waited for any more, nothing is tried', async () => {
    const [lane, beside] = engineOf(hasCore);
    lane.put(...frame('it'));
    lane.other.capacity = 0;
    const sent = lane.send(Buffer.from('header'), Buffer.alloc(0));
    lane.other.capacity = Infinity;
    await Promise.all([lane.receive(), sent]);
    const tries = lane.tries + beside.tries;
    await turns(20);
    expect(lane.tries + beside.tries).toBe(tries);
  });

  test('both lanes are moved, either way, and one that fails no more', async () => {
    const [lane, beside] = engineOf(hasCore);
    lane.other.capacity = beside.other.capacity = 10;
    atTry(beside, 20, () => {
      lane.put(...frame('one'));
      beside.put(...frame('other'));
      lane.other.capacity = Infinity;
      beside.fail(Object.assign(new Error('It has failed.'), { code: 'ERR_TIMEOUT' }) as never);
    });
    const send = (from: ScriptedLane) => from.send(Buffer.from('header'), Buffer.from('body'));
    const results = await Promise.allSettled([lane.receive(), send(lane), beside.receive(), send(beside)]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected']);
    expect(String((await lane.other.receive()).body)).toBe('body');
  });
});
