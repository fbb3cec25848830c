import { MessageChannel } from 'node:worker_threads';
import { wakingNow, WakingTimer } from '../src/waking-time';
import { beStoppedFor } from './support/stopped-process';

beforeEach(() => jest.useFakeTimers());
afterEach(() => {
  jest.useRealTimers();
  jest.restoreAllMocks();
});

test('the clock stands while the process is stopped', () => {
  const begun = wakingNow();
  jest.advanceTimersByTime(1_000);
  expect(wakingNow() - begun).toBeCloseTo(1_000);
  beStoppedFor(3_600_000);
  expect(wakingNow() - begun).toBeCloseTo(1_000);
  jest.advanceTimersByTime(500);
  expect(wakingNow() - begun).toBeCloseTo(1_500);
});

test('a timer is late by as long as the process was stopped, however often', () => {
  const act = jest.fn();
  new WakingTimer(act, 60_000);
  jest.advanceTimersByTime(30_000);
  beStoppedFor(3_600_000);
  jest.advanceTimersByTime(20_000);
  beStoppedFor(61_000);
  jest.advanceTimersByTime(8_000);
  expect(act).not.toHaveBeenCalled();
  jest.advanceTimersByTime(4_001); // the second in which the process was stopped does not count
  expect(act).toHaveBeenCalledTimes(1);
  jest.advanceTimersByTime(3_600_000);
  expect(act).toHaveBeenCalledTimes(1);
});

test('what has arrived while the thread was late is read before a timer acts', async () => {
  jest.useRealTimers();
  const { port1, port2 } = new MessageChannel();
  const order: string[] = [];
  const read = new Promise<void>(resolve => port2.once('message', () => resolve(void order.push('message'))));
  const acted = new Promise<void>(resolve => new WakingTimer(() => resolve(void order.push('timer')), 10));
  port1.postMessage('');
  for (const begun = performance.now(); performance.now() - begun < 50;);
  await Promise.all([read, acted]);
  expect(order).toEqual(['message', 'timer']);
  port1.close();
});

test('a timer that is cancelled does not act, however long it was', () => {
  const act = jest.fn();
  const timers = [500, 3_000, Infinity].map(ms => new WakingTimer(act, ms));
  jest.advanceTimersByTime(499);
  for (const timer of timers) timer.cancel();
  jest.advanceTimersByTime(3_600_000);
  expect(act).not.toHaveBeenCalled();
});
