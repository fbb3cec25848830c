import { expectWholeCheckpoints } from './killed';

// Many more instants, other rings, and saves in the background: test/slow/killed.test.ts.
test('two ranks are killed at two instants: each time there is a complete checkpoint', () =>
  expectWholeCheckpoints({ ranks: 2, kills: 2, background: false }));
