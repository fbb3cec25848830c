import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { CollectiveName } from '../../src/bench/collectives/collective-benchmark';
import type { CollectiveRow } from '../../src/bench/collectives/row';
import { cleanUp, gradring, isRunning, Program, ROOT, temporaryFolder, waitUntil } from '../launcher/support';
import { freePort } from '../support/rings';
import { type RingRows, runInRing } from '../bench/collectives/commands';

afterEach(cleanUp);

const CLI = path.join(ROOT, 'dist/cli.js');
// By default a warm-up takes seconds.
const small = ['--max-bytes', '64', '--iterations', '3', '--warm-up', '1'];

/** Processes whose command line has that word; what the tests look for is unique to them. */
function processesWith(word: string): number[] {
  const lines = execFileSync('ps', ['-eo', 'pid=,args='], { encoding: 'utf8' }).split('\n');
  return lines.filter(line => line.includes(word)).map(line => Number.parseInt(line, 10)).filter(isRunning); // prettier-ignore
}

describe('inside gradring run', () => {
  test('the ranks are those of the run, and rank 0 alone speaks', async () => {
    const program = gradring('run', '-n', '3', CLI, 'bench', 'all-reduce', '-n', '3', ...small, '--json');
    expect((await program.exited).exitCode).toBe(0);
    expect(program.stderr).toBe('');
    const lines = program.stdout.trim().split('\n');
    const rows = lines.map(line => JSON.parse(line.replace(/^\[0\] /, '')) as CollectiveRow);
    expect(rows.map(({ ranks, elements, wrong }) => [ranks, elements, wrong])).toEqual([[3, 1, 0], [3, 4, 0], [3, 16, 0]]); // prettier-ignore
  });

  test.each([
    [['-n', '4'], '--ranks is 4, but this process is one of 2 ranks that were started already'],
    [['--netlab', '1gbit'], '--netlab starts ranks, but this process is a rank that was started already'],
  ])('%j is refused', async (args, words) => {
    const program = gradring('run', '-n', '2', CLI, 'bench', 'barrier', ...args);
    expect((await program.exited).exitCode).toBe(2);
    expect(program.stderr).toContain(words);
    expect(program.stdout).toBe('');
  });

  test('Ctrl-C shows what there is', async () => {
    const html = path.join(temporaryFolder(), 'rows.html');
    const args = ['bench', 'all-reduce', '--max-bytes', '4G', '--iterations', '60', '--warm-up', '1'];
    const program = gradring('run', '-n', '2', '--no-prefix', CLI, ...args, '--json', '--html', html);
    await waitUntil('a row', () => program.stdout.includes('\n'));
    program.child.kill('SIGINT');
    expect(await program.exited).toEqual({ exitCode: 130, signal: null });
    expect(program.stderr).toMatch(/^gradring: SIGINT was passed on to the ranks, which ended: rank 0 exit 130/);
    const rows = program.stdout.trim().split('\n');
    expect(readFileSync(html, 'utf8').match(/<tr><td>/g)).toHaveLength(rows.length);
    expect(processesWith(html)).toEqual([]);
  });
});

test('Ctrl-C writes the page of the rows there are, and leaves no rank behind', async () => {
  const html = path.join(temporaryFolder(), 'rows.html');
  const args = ['--max-bytes', '4G', '--iterations', '77', '--warm-up', '1', '--json', '--html', html];
  const program = gradring('bench', 'all-reduce', '-n', '2', ...args);
  await waitUntil('two rows', () => program.stdout.split('\n').length > 2);
  expect(processesWith('"iterations":77')).toHaveLength(2);
  program.child.kill('SIGINT');
  expect(await program.exited).toEqual({ exitCode: 130, signal: null });
  expect(program.stderr).toMatch(/^gradring: SIGINT was passed on to the ranks.*\n$/);
  const rows = program.stdout.trim().split('\n');
  for (const line of rows) expect(JSON.parse(line)).toMatchObject({ wrong: 0 });
  expect(readFileSync(html, 'utf8').match(/<tr><td>/g)).toHaveLength(rows.length);
  expect(processesWith('"iterations":77')).toEqual([]);
});

const SPOILS: [CollectiveName, elements: number[], ranks: number[], wrong: number][] = [
  ['all-reduce', [2, 3, 15], [], 0],
  ['all-reduce', [2, 3, 15], [1], 3],
  ['all-reduce', [2, 3, 15], [0, 1], 6],
  ['reduce-scatter', [0, 15], [1], 1], // rank 1 has the second half
  ['broadcast', [7], [0, 1], 2],
  ['send-recv', [7, 8], [0], 2],
  ['reduce', [2, 15], [0], 0], // only rank 1, the root, has a result
  ['reduce', [2, 15], [0, 1], 2],
  ['gather', [0, 7], [0, 1], 2], // in the array of the last rank, on the root
  ['scatter', [0, 7], [0, 1], 4], // each rank has 8
  ['all-to-all', [0, 15], [1], 2],
  ['send', [7], [0], 1], // what came back
  ['sparse-all-reduce', [5], [1], 16], // its hash differs, and that says no more
  ['sparse-all-reduce', [5], [0, 1], 2],
];

describe('results that are spoiled', () => {
  let results: RingRows[];
  beforeAll(async () => {
    const commands = SPOILS.map(([name, elements, ranks]) => ({ args: [name], spoils: { elements, ranks } }));
    results = await runInRing(2, commands);
  });

  test.each(SPOILS.map((spoil, i) => [...spoil, i] as const))(
    '%s, elements %j on ranks %j: %i are wrong in each that is checked',
    (_name, _elements, _ranks, wrong, i) => {
      const { rows, exitCodes } = results[i]!;
      expect(rows).toEqual([expect.objectContaining({ elements: 16, wrong: 2 * wrong })]); // the warm-up's, and the last
      expect(exitCodes).toEqual(wrong === 0 ? [0, 0] : [1, 1]);
    },
  );
});

test('ranks may be started without any launcher, and a folder on a disk has no shared memory', async () => {
  const env = {
    GRADRING_SOCKET_FOLDER: temporaryFolder(),
    WORLD_SIZE: '2',
    MASTER_PORT: String(await freePort()),
  };
  const ranks = [0, 1].map(
    rank =>
      new Program([CLI, 'bench', 'barrier', '--iterations', '2', '--warm-up', '1', '--json'], {
        ...env,
        RANK: String(rank),
      }),
  );
  for (const rank of ranks) expect((await rank.exited).exitCode).toBe(0);
  expect(JSON.parse(ranks[0]!.stdout)).toMatchObject({ collective: 'barrier', ranks: 2, carriedBy: ['unix-socket'] });
  expect(ranks[1]!.stdout).toBe('');
});
