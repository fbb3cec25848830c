import { expectWholeCheckpoints } from '../checkpoint/killed';

test.each([
  { ranks: 1, kills: 60 },
  { ranks: 2, kills: 20 },
] as const)(
  '$ranks rank(s) killed at $kills instants: each time there is a complete checkpoint',
  ({ ranks, kills }) => expectWholeCheckpoints(ranks, kills),
  300_000,
);
