import { expectWholeCheckpoints } from '../checkpoint/killed';

test.each([
  { ranks: 1, kills: 15, background: false },
  { ranks: 2, kills: 10, background: false },
  { ranks: 1, kills: 10, background: true },
  { ranks: 3, kills: 6, background: true },
] as const)(
  '$ranks rank(s) killed at $kills instants, background: $background: each time there is a complete checkpoint',
  expectWholeCheckpoints,
  300_000,
);
