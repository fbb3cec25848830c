import { expectWholeCheckpoints } from './killed';

// Many more instants are in test/slow.
test.each([
  { ranks: 1, kills: 4 },
  { ranks: 2, kills: 2 },
] as const)(
  '$ranks rank(s) killed at $kills instants: each time there is a complete checkpoint',
  ({ ranks, kills }) => expectWholeCheckpoints(ranks, kills),
  180_000,
);
