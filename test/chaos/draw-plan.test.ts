import { planOf } from './draw-plan';

test('the ranks of a run leave in different ways', () => {
  const drawn = Array.from({ length: 100 }, (_, number) => planOf(1, number, ['kill']).leaves);
  for (const way of ['close', 'exit', 'fall off', 'stay'] as const) {
    expect(drawn.filter(leaves => leaves.includes(way) && new Set(leaves).size > 1).length).toBeGreaterThan(50);
  }
});

test('elastic runs take each kind of link', () => {
  const plans = Array.from({ length: 90 }, (_, number) => planOf(1, number, ['elastic']));
  const count = (transport: string, encrypted: boolean) =>
    plans.filter(plan => plan.transport === transport && plan.encrypted === encrypted).length;
  for (const [transport, encrypted] of [
    ['ipc', false],
    ['tcp', false],
    ['tcp', true],
  ] as const) {
    expect(count(transport, encrypted)).toBeGreaterThan(20);
  }
  expect(count('ipc', true)).toBe(0);
});

test('plans are the same for the same seed and number', () => {
  const plans = (seed: number) => Array.from({ length: 50 }, (_, number) => planOf(seed, number));
  expect(plans(1)).toEqual(plans(1));
  expect(plans(1)).not.toEqual(plans(2));
  expect(new Set(plans(1).map(plan => JSON.stringify({ ...plan, number: 0 }))).size).toBe(50);
});
