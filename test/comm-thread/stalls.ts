import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type FaultyRun, runFaulty } from '../faults/support';
import { temporaryFolder, waitUntil } from '../launcher/support';

/** What is said of calls. On a slow machine ranks are also late while the ring forms, and that is said, too. */
export const stallLines = (output: string) =>
  output.split('\n').filter(line => line.startsWith('gradring: ') && !/^gradring: after \d+ s /.test(line));

/**
 * Runs a script in which a rank comes late: `isAbsent()` is true until that many lines have been said on stderr. Tells
 * also which ranks said them.
 */
export async function runUntilSaid(
  ranks: number,
  source: string,
  count: number,
): Promise<FaultyRun & { readonly tellers: number[] }> {
  const folder = temporaryFolder();
  const file = path.join(folder, 'come');
  const run = await runFaulty(
    ranks,
    `const isAbsent = () => !require('node:fs').existsSync(${JSON.stringify(file)});\n${source}`,
    {
      // So long that all that are not late call within it, and that a second is left for their answers.
      env: { GRADRING_STALL_MS: '2000', GRADRING_TIMEOUT_MS: '60000' },
      args: ['--output-dir', folder],
      during: async (_, output) => {
        await waitUntil('the lines', () => stallLines(output.stderr).length >= count);
        writeFileSync(file, '');
      },
    },
  );
  const logs = Array.from({ length: ranks }, (_, rank) => readFileSync(path.join(folder, `rank-${rank}.log`), 'utf8'));
  return { ...run, tellers: logs.flatMap((log, rank) => (stallLines(log).length > 0 ? [rank] : [])) };
}

/** One rank tells of rank 2, which is not there for a while; when it comes all go on. */
export async function expectReport(count: number, absence: string): Promise<void> {
  const source = `
    const ring = await Communicator.connect();
    await ring.allReduce(Float32Array.of(1));
    ready();
    if (ring.rank === 2) { ${absence} }
    await ring.barrier();
    say('done');`;
  const { exitCode, stdout, stderr, tellers } = await runUntilSaid(3, source, count);
  expect({ exitCode, done: stdout.match(/^done$/gm)?.length }).toEqual({ exitCode: 0, done: 3 });
  expect(tellers).toEqual([0]);
  for (const line of stallLines(stderr)) {
    expect(line).toMatch(
      /^gradring: 2 ranks have waited \d+ s in barrier\(\) \(collective 1\): rank 2 has not called it; its last call, allReduce\(sum, float32\[1\]\) \(collective 0\), ended \d+ s ago\.$/,
    );
  }
}
