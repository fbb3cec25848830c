import { type Listener, METRICS, Observer, type Span, type SpanKind } from '../src/observer';
import { closeRing, connectRing, until } from './support/rings';

/** A listener that keeps what it hears. */
function witness(...kinds: Listener['kinds']): Listener & { readonly spans: Span[] } {
  const spans: Span[] = [];
  return { kinds, spans, onSpan: span => void spans.push(span) };
}

describe('a listener', () => {
  test('hears the spans that it wants, until it is removed', () => {
    const observer = new Observer();
    const [all, sends] = [witness('send', 'copy', 'collective'), witness('send')];
    observer.listen(all);
    const remove = observer.listen(sends);
    for (const kind of ['send', 'copy', 'apply'] satisfies SpanKind[]) observer.record(kind, { of: kind }, () => 0);
    remove();
    observer.record('send', { of: 'late' }, () => 0);
    observer.ended('collective', observer.startOf('collective')!, { sequence: 3 }, 'barrier()');
    const heard = ({ spans }: { spans: Span[] }) => spans.map(({ name, args }) => [name, ...Object.values(args)]);
    expect(heard(sends)).toEqual([['send', 'send']]);
    expect(heard(all)).toEqual([
      ['send', 'send'],
      ['copy', 'copy'],
      ['send', 'late'],
      ['barrier()', 3],
    ]);
    for (const { start, end } of all.spans) expect(end).toBeGreaterThanOrEqual(start);
  });

  test('costs no time where nobody wants the span', () => {
    const observer = new Observer();
    observer.listen(witness('send'));
    const clock = jest.spyOn(process.hrtime, 'bigint');
    expect(observer.startOf('copy')).toBeUndefined();
    expect(observer.record('copy', {}, () => 7)).toBe(7);
    expect(clock).not.toHaveBeenCalled();
    observer.record('send', {}, () => 7);
    expect(clock).toHaveBeenCalledTimes(2);
    clock.mockRestore();
  });

  test('is told of rings, and closed', () => {
    const observer = new Observer();
    const [onRing, close] = [jest.fn(), jest.fn()];
    observer.listen({ ...witness('send'), onRing, close });
    observer.listen(witness('send')); // needs neither
    observer.formed('a', 'host');
    observer.close();
    observer.formed('b', 'host');
    expect(onRing.mock.calls).toEqual([['a', 'host']]);
    expect(close).toHaveBeenCalledTimes(1);
    expect(observer.startOf('send')).toBeUndefined();
  });
});

describe('the metrics', () => {
  test('are shared by the observers of a rank', () => {
    const first = new Observer();
    const second = new Observer(first.shared);
    for (const metric of METRICS) expect(second.read(metric)).toBe(0);
    first.count('bytesSent', 2 ** 40);
    second.count('bytesSent');
    first.gauge('worldSize', 3);
    first.gauge('worldSize', 2);
    expect([second.read('bytesSent'), second.read('worldSize'), second.read('bytesReceived')]).toEqual([
      2 ** 40 + 1,
      2,
      0,
    ]);
  });

  test('can be read while a collective is under way', async () => {
    const ring = await connectRing(3);
    const [first, second, late] = ring;
    const of = (metric: (typeof METRICS)[number]) => first!.observer.read(metric);
    await Promise.all(ring.map(rank => rank.barrier()));
    expect([of('worldSize'), of('collectives'), of('underWay')]).toEqual([3, 1, 0]);
    const { bytesSent } = first!.traffic;
    const waiting = [first!, second!].map(rank => rank.allReduce(new Float32Array(100_000)));
    await until(() => first!.traffic.bytesSent > bytesSent);
    expect([of('collectives'), of('underWay')]).toEqual([1, 1]);
    await Promise.all([...waiting, late!.allReduce(new Float32Array(100_000))]);
    expect([of('collectives'), of('underWay')]).toEqual([2, 0]);
    await closeRing(ring);
  });
});
