import { randomBytes } from 'node:crypto';
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { LaunchResult } from '../../src/launcher/conclude';
import { launch } from '../../src/launcher/launch';
import type { LaunchOptions } from '../../src/launcher/launch-options';
import { needs, testWhere } from '../support/test-where';
import { Capture, cleanUp, Program, ROOT, script, temporaryFolder, UNCONNECTED } from './support';

afterEach(cleanUp);

const TOKEN = randomBytes(32).toString('hex');
const SHOW = 'console.log(process.env.GRADRING_RUN_TOKEN ?? "none");';

async function run(options: Partial<LaunchOptions>): Promise<LaunchResult & { tokens: string[] }> {
  const stdout = new Capture();
  const result = await launch({
    ...{ ranks: 2, script: script(SHOW), stdout, stderr: new Capture(), prefix: false },
    ...options,
  });
  return { ...result, tokens: stdout.lines };
}

function tokenFile(text: string): string {
  const file = path.join(temporaryFolder(), 'token');
  writeFileSync(file, text, { mode: 0o600 });
  return file;
}

test('all ranks of a run have the same token, and another run has another', async () => {
  const [first, second] = [(await run({})).tokens, (await run({ ranks: 1 })).tokens];
  expect(first[0]).toMatch(/^[0-9a-f]{64}$/);
  expect(first[1]).toBe(first[0]);
  expect(second[0]).not.toBe(first[0]);
});

test('a token comes from a file, or else the environment; on several nodes none is drawn', async () => {
  const [ranks, env] = [1, { GRADRING_RUN_TOKEN: TOKEN }];
  expect((await run({ ranks, env })).tokens).toEqual([TOKEN]);
  const inFile = randomBytes(32).toString('hex');
  expect((await run({ ranks, env, tokenFile: tokenFile(`${inFile}\n`) })).tokens).toEqual([inFile]);
  expect((await run({ ranks, nodes: 2, masterAddr: '10.0.0.5', nodeRank: 1 })).tokens).toEqual(['none']);
});

test('a wrong token, or a file that is not there, is an error before any rank runs, which does not show it', async () => {
  const wrong = TOKEN.slice(1);
  const inEnvironment = run({ env: { GRADRING_RUN_TOKEN: wrong } });
  await expect(inEnvironment).rejects.toMatchObject({ code: 'ERR_INVALID_ENVIRONMENT' });
  await expect(inEnvironment).rejects.not.toMatchObject({ message: expect.stringContaining(wrong) as string });
  const file = tokenFile(wrong);
  const inFile = run({ tokenFile: file });
  await expect(inFile).rejects.toMatchObject({ message: expect.stringContaining(file) as string });
  await expect(inFile).rejects.not.toMatchObject({ message: expect.stringContaining(wrong) as string });
  await expect(run({ tokenFile: '/no/such/file' })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
});

testWhere(needs.linux)(
  'a failing run shows the token nowhere: output, logs, timelines, command lines, titles',
  async () => {
    const [logs, timelines] = [temporaryFolder(), temporaryFolder()];
    const seen = path.join(temporaryFolder(), 'seen');
    const source = `
    const { Communicator } = require(${JSON.stringify(path.join(ROOT, 'dist/communicator/communicator.js'))});
    (async () => {
      const ring = await Communicator.connect({ encryption: 'on', transport: 'tcp' });
      console.log(ring);
      await ring.allReduce(new Float32Array(1000));
      console.log('rank ' + ring.rank + ' ready ' + process.pid);
      while (!require('node:fs').existsSync(${JSON.stringify(seen)})) await new Promise(resolve => setTimeout(resolve, 20));
      if (ring.rank === 1) throw new Error('on purpose');
      await ring.allReduce(new Float32Array(1000));
    })();`;
    const program = new Program(
      [
        ...[path.join(ROOT, 'dist/cli.js'), 'run', '-n', '2', '--output-dir', logs, '--timeline', timelines],
        ...['--token-file', tokenFile(TOKEN), script(source)],
      ],
      {},
    );
    const ranks = await program.readyRanks(2);
    const shown = [program.child.pid!, ...ranks].flatMap(pid => [
      readFileSync(`/proc/${pid}/cmdline`, 'utf8'),
      ...readdirSync(`/proc/${pid}/task`).map(task => readFileSync(`/proc/${pid}/task/${task}/comm`, 'utf8')),
    ]);
    for (const pid of ranks) expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).toContain(TOKEN); // where it may be
    writeFileSync(seen, '');
    expect((await program.exited).exitCode).toBe(1);
    for (const folder of [logs, timelines]) {
      const files = readdirSync(folder);
      expect(files).toHaveLength(2);
      shown.push(...files.map(file => readFileSync(path.join(folder, file), 'utf8')));
    }
    const all = [program.stdout, program.stderr, ...shown].join('\n');
    expect(all).toMatch(/on purpose/);
    expect(all).toMatch(/ERR_PEER_LOST/);
    for (const form of [TOKEN, Buffer.from(TOKEN, 'hex').toString('base64')]) expect(all).not.toContain(form);
  },
);

test('a token file that others may read is told of, without its token', async () => {
  const file = tokenFile(TOKEN);
  const stderr = new Capture();
  await run({ tokenFile: file, stderr });
  expect(stderr.lines).toEqual([UNCONNECTED]);
  chmodSync(file, 0o640);
  expect((await run({ tokenFile: file, stderr })).tokens).toEqual([TOKEN, TOKEN]);
  expect(stderr.lines).toEqual([
    UNCONNECTED,
    `gradring: others may read the run token in ${file} (mode 0640): chmod 600 it.`,
    UNCONNECTED,
  ]);
});
