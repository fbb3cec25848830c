import { MEASUREMENTS } from '../../scripts/performance/measurements';
import { committedResults, pageOf } from '../../scripts/performance/write-docs';
import { readPage } from '../support/doc-pages';

test('docs/performance.md shows the committed measurements', () => {
  expect(readPage('docs/performance.md')).toBe(pageOf(committedResults()));
});

test('those are of the commands that measure.js runs now, and nothing is missing', () => {
  const { measurements } = committedResults() as { measurements: Record<string, { runs: { command: string }[] }> };
  const commands = Object.entries(measurements).map(([name, { runs }]) => [name, runs.map(({ command }) => command)]);
  const expected = Object.entries(MEASUREMENTS).map(([name, { commands }]) => [name, commands]);
  expect(Object.fromEntries(commands)).toEqual(Object.fromEntries(expected));
});
