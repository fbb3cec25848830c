import type { Summary } from '../operations/compare';
import { committed, type Measurements, wrong } from '../operations/measurements';
import { runScript } from '../support/scripts';

/** What is the same on every machine: all but the sizes of errors. */
const withoutErrors = (operations: Readonly<Record<string, Summary>>) =>
  Object.fromEntries(
    Object.entries(operations).map(([name, { cases, own, failures }]) => [name, { cases, own, failures }]),
  );

describe('compared with true results and gradients', () => {
  let measured: Measurements;
  beforeAll(async () => {
    const { exitCode, stdout, stderr } = await runScript('operations/measure', 'wasm', 'cpu');
    if (exitCode !== 0) throw new Error(stderr);
    measured = JSON.parse(stdout) as Measurements;
  }, 180_000);

  describe.each(['wasm', 'cpu'])('%s', backend => {
    test('has no wrong number', () => expect(wrong(measured[backend]!.operations)).toEqual([]));

    test('fails and is corrected where the docs say so, and nowhere else', () =>
      expect(withoutErrors(measured[backend]!.operations)).toEqual(withoutErrors(committed[backend]!.operations)));

    test('has a case for every kernel with a gradient', () => expect(measured[backend]!.untried).toEqual([]));
  });
});
