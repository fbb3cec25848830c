import { CODE, examplesOf } from '../support/docstrings';

// That the examples run: test/slow/docstring-examples.test.ts.
test('every public class and function has a docstring with an example', () => {
  expect(CODE.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['connect', 'Ring', 'Ring.shard', 'dgc', 'launch', 'core: connect', 'core: RingGradients']),
  );
  const without = CODE.filter(({ kind, docstring }) => kind !== 'member' && examplesOf(docstring).length === 0);
  expect(without.map(({ name }) => name)).toEqual([]);
});

test('every public member of a class has a docstring', () => {
  expect(CODE.filter(({ docstring }) => docstring === '').map(({ name }) => name)).toEqual([]);
});
