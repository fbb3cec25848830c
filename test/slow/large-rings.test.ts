import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { FormRow } from '../../src/bench/form/form-ring';
import type { ScaleResult } from '../../src/bench/scale/result';
import { benchOutputOfProcess } from '../bench/commands';
import { CONSTANTS } from '../bench/speedup-support';
import { cleanUp, temporaryFolder } from '../launcher/support';

afterEach(cleanUp);

test.each([
  [60, 'auto', 'auto', 2],
  [30, 'tcp', 'on', 3],
] as const)(
  '%i ranks form a ring: transport %s, encryption %s',
  async (ranks, transport, encryption, processes) => {
    const links = ['--transport', transport, '--encryption', encryption, '--processes', String(processes)];
    const row = JSON.parse(await benchOutputOfProcess('form', '-n', String(ranks), ...links, '--json')) as FormRow;
    expect(row).toMatchObject({ ranks, processes, transport, encryption });
    expect(row.rendezvous).toMatchObject({ messagesReceived: 3 * ranks, messagesSent: 3 * ranks });
  },
  180_000,
);

test('a rank sends what the model says, on each route', async () => {
  const folder = temporaryFolder();
  const [constants, json] = ['constants.json', 'scale.json'].map(name => path.join(folder, name)) as [string, string];
  writeFileSync(constants, JSON.stringify({ constants: CONSTANTS }));
  const words = ['--constants', constants, '--ranks', '4', '--measure-rate', '20mbit', '--link-delay', '5ms'];
  const output = await benchOutputOfProcess('scale', ...words, '--json', json);
  expect(output).toContain('on paced links of 20mbit with a delay of 5ms.');
  const { checks, rows } = JSON.parse(readFileSync(json, 'utf8')) as ScaleResult;
  expect(checks.map(({ ranks, route }) => ({ ranks, route }))).toEqual(
    rows.map(({ ranks, route }) => ({ ranks, route })),
  );
  for (const { bytesErrorPercent, timeErrorPercent, expectedMs, measuredMs } of checks) {
    expect(Math.abs(bytesErrorPercent)).toBeLessThan(8); // other gradients, other lengths
    expect(timeErrorPercent).toBeCloseTo(100 * (expectedMs / measuredMs - 1), 0);
  }
}, 180_000);
