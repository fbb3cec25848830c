import { ALONE_IN_SLURM, SLURM } from '../../environment/schedulers';
import { gradringHere } from '../../launcher/run-here';
import { cleanUp } from '../../launcher/support';
import { expectBenchRefusal } from '../commands';
import { collectiveRows, WARM } from './commands';

afterEach(cleanUp);

// All collectives, types and ways, and the table: test/slow/bench-collectives.test.ts.
test('the command starts its ranks', async () => {
  const rows = await collectiveRows('all-reduce', '-n', '2', '--max-bytes', '16', '--iterations', '2', ...WARM);
  expect(rows.map(({ ranks, bytes, wrong }) => [ranks, bytes, wrong])).toEqual([
    [2, 4, 0],
    [2, 16, 0],
  ]);
});

test.each([
  [['all-reduce'], 'How many ranks? Give -n'],
  [['all-reduce', '-n', '0'], "--ranks is '0'; it must be a whole number from 1 to 65535"],
  [['all-reduce', '-n', '2', '--max-byte', '4'], 'Unknown option: --max-byte. Did you mean --max-bytes?'],
  [['all-reduce', '-n', '2', '--max-bytes', '4T'], "--max-bytes is '4T'; it must be a size"],
  [['all-reduce', '-n', '2', '--root', '1'], 'Unknown option: --root'],
  [['barrier', '-n', '2', '--type', 'uint8'], 'Unknown option: --type'],
  [['all-reduce', '-n', '2', '--html', '/nowhere/x.html'], '/nowhere does not exist'],
  [['all-reduce', '-n', '2', '--html', '/'], "--html is '/', which is a folder"],
  [['all-reduce', '-n', '2', '--netlab', 'fast'], "--netlab is 'fast'; it must be a rate"],
])('a wrong command line is one line and exit code 2: %j', (args, words) => expectBenchRefusal(args, words));

test.each([
  ['the only task of a scheduler starts ranks', ALONE_IN_SLURM, 'How many ranks? Give -n'],
  [
    'one of several tasks is a rank',
    SLURM,
    '--ranks is 2, but this process is one of 3 ranks that were started already',
  ],
])('%s', async (_, variables, words) => {
  const before = { ...process.env };
  Object.assign(process.env, variables);
  const number = variables === SLURM ? ['-n', '2'] : [];
  const { stderr } = await gradringHere('bench', 'all-reduce', ...number).finally(() => (process.env = before));
  expect(stderr).toContain(words);
});

test.each([
  'all-reduce',
  'all-gather',
  'reduce-scatter',
  'broadcast',
  'barrier',
  'reduce',
  'gather',
  'scatter',
  'all-to-all',
  'send-recv',
  'send',
  'sparse-all-reduce',
])('%s has help with examples', async name => {
  const { exitCode, stdout } = await gradringHere('bench', name, '--help');
  expect(exitCode).toBe(0);
  const [words] = stdout.replace(/\s+/g, ' ').split('Options:');
  expect(words!.includes('busbw is the rate at which each link')).toBe(name !== 'barrier');
  expect(stdout).toMatch(new RegExp(`-n, --ranks[^]*Examples:\\n +gradring bench ${name} -n 4`));
});

test('the help of all benchmarks says what busbw is', async () => {
  const { exitCode, stdout } = await gradringHere('bench', '--help');
  expect(exitCode).toBe(0);
  expect(stdout.replace(/\s+/g, ' ')).toContain('busbw is the rate at which each link between two ranks');
});
