import { Farewell } from '../../src/transport/control/farewell';

async function isOver(farewell: Farewell): Promise<boolean> {
  const later = new Promise<false>(resolve => setImmediate(() => resolve(false)));
  return Promise.race([farewell.over().then(() => true), later]);
}

test('it is over when both neighbours have spoken and have seen all', async () => {
  const farewell = new Farewell();
  farewell.hear('left');
  expect(await isOver(farewell)).toBe(false);
  farewell.say('left');
  farewell.hear('right');
  farewell.say('right');
  farewell.say('right');
  farewell.see('left');
  farewell.see('right');
  expect(await isOver(farewell)).toBe(false);
  farewell.see('right');
  expect(await isOver(farewell)).toBe(true);
});

test('whoever is gone is not waited for', async () => {
  const farewell = new Farewell();
  farewell.say('right');
  farewell.hear('left');
  expect(await isOver(farewell)).toBe(false);
  farewell.lose('right');
  expect(await isOver(farewell)).toBe(true);
});
