import { startRanks } from '../support/rings';

/** Ends of ranks in which a race might hide: a test has each once, one of test/slow often. */

/** How a script ends, and how it says so. */
export const WAYS_TO_END: Readonly<Record<string, string>> = {
  'falls off its end': '',
  'calls process.exit()': 'process.exit(0);',
  closes: 'await ring.close();',
};

/** Three ranks that end right after their last collective have had all of it. */
export async function expectAllFrames(way: string, env: NodeJS.ProcessEnv): Promise<void> {
  const source = `
    const ring = await Communicator.connect();
    const array = new Float32Array(200_000).fill(ring.rank);
    await ring.allReduce(array);
    const gathered = await ring.allGather(Int32Array.of(ring.rank));
    say('sums ' + array.every(value => value === 3) + ' ' + gathered.join());
    ${WAYS_TO_END[way]!}`;
  for (const { ended } of await startRanks(3, source, env)) {
    expect(await ended).toMatchObject({ exitCode: 0, signal: null, stdout: 'sums true 0,1,2\n' });
  }
}

/** Ranks that fail, or exit, so long after their scripts began have the exit codes of that. */
export async function expectOwnExitCodes(ms: number): Promise<void> {
  const encrypted = { GRADRING_ENCRYPTION: 'on', GRADRING_TRANSPORT: 'tcp', GRADRING_RUN_TOKEN: 'ab'.repeat(32) };
  const doomed = (doom: string) => `setTimeout(() => { ${doom}; }, ${ms}); await Communicator.connect().catch(tell);`;
  const throws = doomed(`throw new Error('on purpose')`);
  for (const env of [{}, encrypted]) {
    const alone = await startRanks(2, rank => (rank === 0 ? throws : ''), env);
    const together = await startRanks(2, doomed('process.exit(0)'), env);
    const ends = await Promise.all([alone[0]!, ...together].map(rank => rank.ended));
    const how = ends.map(({ exitCode, signal }) => exitCode ?? signal);
    expect({ ms, env, how }).toEqual({ ms, env, how: [1, 0, 0] });
  }
}
