import { expectWholeCheckpoints } from './killed';

// Many more instants are in test/slow.
test.each([
  { ranks: 1, kills: 4, background: false },
  { ranks: 2, kills: 2, background: false },
  { ranks: 3, kills: 2, background: true },
] as const)(
  '$ranks rank(s) killed at $kills instants, background: $background: each time there is a complete checkpoint',
  expectWholeCheckpoints,
  180_000,
);
