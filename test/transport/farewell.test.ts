import { Farewell } from '../../src/transport/control/farewell';

async function isOver(farewell: Farewell): Promise<boolean> {
  const later = new Promise<false>(resolve => setImmediate(() => resolve(false)));
  return Promise.race([farewell.over().then(() => true), later]);
}

test('it is over when both neighbours have spoken and have seen all', async () => {
  const farewell = new Farewell();
  farewell.received('left');
  expect(await isOver(farewell)).toBe(false);
  farewell.sent('left');
  farewell.received('right');
  farewell.sent('right');
  farewell.sent('right');
  farewell.acknowledged('left');
  farewell.acknowledged('right');
  expect(await isOver(farewell)).toBe(false);
  farewell.acknowledged('right');
  expect(await isOver(farewell)).toBe(true);
});

test('a neighbour that is gone is not waited for', async () => {
  const farewell = new Farewell();
  farewell.sent('right');
  farewell.received('left');
  expect(await isOver(farewell)).toBe(false);
  farewell.lost('right');
  expect(await isOver(farewell)).toBe(true);
});
