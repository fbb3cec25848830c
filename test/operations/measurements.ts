import { committedOperations } from '../../scripts/operations/write-docs';
import type { Summary } from './compare';

/** By backend. */
export type Measurements = Record<
  string,
  { readonly untried: readonly string[]; readonly operations: Readonly<Record<string, Summary>> }
>;

/** What the docs show. */
export const committed = committedOperations() as Measurements;

/** The cases whose numbers are wrong. */
export const wrong = (operations: Readonly<Record<string, Summary>>) =>
  Object.entries(operations).flatMap(([name, { failures }]) =>
    failures.filter(({ why }) => why === 'wrong').map(({ of, cases }) => [name, of, ...cases]),
  );
