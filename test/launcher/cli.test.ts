import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { cleanUp, gradring, Program, ROOT, script, temporaryFolder } from './support';

afterEach(cleanUp);

const showArguments = (): string => script('console.log(JSON.stringify(process.argv.slice(2)))');

test.each([
  { separator: [], args: ['--json', 'x', '-n', '5'] },
  { separator: ['--'], args: ['--json', 'x', '-n', '5'] },
  { separator: [], args: ['007', '1e3', '--', '--help', '--no-prefix', '-h', '--version', ''] },
  { separator: [], args: [] },
])('what follows the script is the script’s: $separator $args', async ({ separator, args }) => {
  const program = gradring('run', '-n', '2', '--no-prefix', ...separator, showArguments(), ...args);
  expect(await program.exited).toEqual({ exitCode: 0, signal: null });
  expect(program.stderr).toBe('');
  expect(program.stdout).toBe(`${JSON.stringify(args)}\n`.repeat(2));
});

test('the options reach the launch', async () => {
  const file = script(`
    const { RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT } = process.env;
    console.log([RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT].join());
    process.exitCode = 5;`);
  const logs = path.join(temporaryFolder(), 'logs');
  const nodes = ['--nodes', '2', '--node-rank', '1', '--master-addr', 'localhost', '--master-port', '4321'];
  const program = gradring('run', '--ranks=1', ...nodes, '--output-dir', logs, '--grace-ms=100', '--no-prefix', file);
  expect((await program.exited).exitCode).toBe(5);
  expect(program.stdout).toBe('1,2,localhost,4321\n');
  expect(readFileSync(path.join(logs, 'rank-1.log'), 'utf8')).toBe('1,2,localhost,4321\n');
});

test.each([
  [['--help'], /gradring run .*Start a script[^]*Examples:\n +gradring run -n 4 train\.js/],
  [['run', '--help'], /-n, --ranks[^]*--output-dir[^]*--master-addr[^]*Examples:\n +gradring run -n 4 train\.js/],
  [['run', '-n', '2', '--help', 'train.js'], /--grace-ms/],
  [['--version'], /^\d+\.\d+\.\d+\S*\n$/],
])('%j', async (args, pattern) => {
  const program = gradring(...args);
  expect((await program.exited).exitCode).toBe(0);
  expect(program.stdout).toMatch(pattern);
  expect(program.stderr).toBe('');
});

test.each([
  [[], 'ERR_INVALID_ARGUMENT: No command was named'],
  [['rum', '-n', '2'], 'ERR_INVALID_ARGUMENT: Did you mean run?'],
  [['run', '-n', '2'], 'ERR_INVALID_ARGUMENT: No script was named'],
  [['run', 'x.js'], 'ERR_INVALID_ARGUMENT: Missing required argument: ranks'],
  [['run', '-n'], 'ERR_INVALID_ARGUMENT: Not enough arguments following: n'],
  [['run', '-n', '0', __filename], 'ERR_INVALID_ARGUMENT: ranks is 0; it must be'],
  [['run', '-n', 'two', __filename], 'ERR_INVALID_ARGUMENT: ranks is NaN; it must be'],
  [['run', '-n', '2', '--master-prot', '80', __filename], 'Unknown argument: master-prot. Did you mean --master-port?'],
  [['run', '-n', '2', '--nodse', '2', __filename], 'Unknown argument: nodse. Did you mean --nodes?'],
  [['rnu', '-n', '2'], 'Did you mean run?'],
  [['run', '-n', '2', '--xyzzy', __filename], 'ERR_INVALID_ARGUMENT: Unknown argument: xyzzy. See --help.'],
  [['run', '-n', '2', '/nowhere/x.js'], 'ERR_SCRIPT_NOT_FOUND: /nowhere/x.js does not exist.'],
])('a wrong command line is one line and exit code 2: %j', async (args, words) => {
  const program = gradring(...args);
  expect((await program.exited).exitCode).toBe(2);
  expect(program.stderr).toContain(words);
  expect(program.stderr).toMatch(/^gradring: ERR_[A-Z_]+: .*\n$/);
  expect(program.stdout).toBe('');
});

describe('scripts/launch', () => {
  test('is gradring run', () => {
    const file = showArguments();
    const { stdout, status } = spawnSync(path.join(ROOT, 'scripts/launch'), ['-n', '1', file, '-n', '3'], {
      encoding: 'utf8',
    });
    expect(stdout).toBe('[0] ["-n","3"]\n');
    expect(status).toBe(0);
  });

  test('says what to do if nothing is built', async () => {
    const folder = temporaryFolder();
    mkdirSync(path.join(folder, 'scripts'));
    cpSync(path.join(ROOT, 'scripts/launch'), path.join(folder, 'scripts/launch'));
    const program = new Program([path.join(folder, 'scripts/launch'), '-n', '1', 'x.js']);
    expect((await program.exited).exitCode).toBe(2);
    expect(program.stderr).toContain('npm run build');
  });
});
