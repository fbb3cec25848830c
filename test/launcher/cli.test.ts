import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import path from 'node:path';
import { main } from '../../src/cli';
import { gradringHere } from './run-here';
import { cleanUp, gradring, Program, ROOT, script, temporaryFolder, UNCONNECTED } from './support';
import { casesOf } from '../support/cases';

afterEach(cleanUp);

/** The command line is refused, in one line that begins with a code. */
async function expectRefusal(args: readonly string[], words: string): Promise<void> {
  const said: string[] = [];
  const error = jest.spyOn(console, 'error').mockImplementation((line: string) => void said.push(line));
  const { exitCode } = process;
  try {
    await main(args);
    expect(process.exitCode).toBe(2);
  } finally {
    process.exitCode = exitCode;
    error.mockRestore();
  }
  expect(said).toEqual([expect.stringMatching(/^gradring: ERR_[A-Z_]+: .*$/)]);
  expect(said[0]).toContain(words);
}

const showArguments = (): string => script('console.log(JSON.stringify(process.argv.slice(2)))');

const COMMANDS = casesOf<{ separator: string[]; args: string[] }>(
  [{ separator: [], args: ['007', '1e3', '--', '--help', '--no-prefix', '-h', '--version', ''] }],
  [
    { separator: [], args: ['--json', 'x', '-n', '5'] },
    { separator: ['--'], args: ['--json', 'x', '-n', '5'] },
    { separator: [], args: [] },
  ],
);

test.each(COMMANDS)('what follows the script is the script’s: $separator $args', async ({ separator, args }) => {
  const program = gradring('run', '-n', '2', '--no-prefix', ...separator, showArguments(), ...args);
  expect(await program.exited).toEqual({ exitCode: 0, signal: null });
  expect(program.stderr).toBe(`${UNCONNECTED}\n`);
  expect(program.stdout).toBe(`${JSON.stringify(args)}\n`.repeat(2));
});

test('the options reach the launch, and --node-args are options for Node itself', async () => {
  const file = script(`
    const { RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, GRADRING_STOP_AFTER } = process.env;
    console.log([RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, GRADRING_STOP_AFTER].join());
    console.log(JSON.stringify([process.title, process.execArgv.slice(2), process.argv.slice(2)]));
    process.exitCode = 5;`);
  const logs = path.join(temporaryFolder(), 'logs');
  const nodes = ['--nodes', '2', '--node-rank', '1', '--master-addr', 'localhost', '--master-port', '4321'];
  const others = ['--output-dir', logs, '--stop-after', '55m', '--grace-ms=100', '--no-prefix'];
  const forNode = '--node-args=--max-old-space-size=300 --title="two words"';
  const program = gradring('run', '--ranks=1', ...nodes, ...others, forNode, file, '--node-args=x');
  expect((await program.exited).exitCode).toBe(5);
  const [place, node] = program.stdout.split('\n') as [string, string];
  expect(place).toBe('1,2,localhost,4321,55m');
  const given = ['--max-old-space-size=300', '--title=two words'];
  expect(JSON.parse(node)).toEqual(['two words', given, ['--node-args=x']]);
  expect(readFileSync(path.join(logs, 'rank-1.log'), 'utf8')).toBe(program.stdout);
});

test('the options of the network reach the ranks', async () => {
  const file = script(`
    const { MASTER_ADDR, GRADRING_IFACE, GRADRING_PORT_RANGE, GRADRING_ADVERTISE_ADDR } = process.env;
    console.log([MASTER_ADDR, GRADRING_IFACE, GRADRING_PORT_RANGE, GRADRING_ADVERTISE_ADDR].join());`);
  const network = ['--iface', 'lo', '--port-range', '30000-30003', '--advertise-addr', '192.0.2.1'];
  const nodes = ['--nodes', '2', '--node-rank', '1', '--master-addr', '[2001:db8::7]', '--master-port', '4321'];
  const program = gradring('run', '-n', '1', ...nodes, ...network, '--no-prefix', file);
  await program.exited;
  expect(program.stdout).toBe('2001:db8::7,lo,30000-30003,192.0.2.1\n');
  expect(program.stderr).toBe(`${UNCONNECTED.replace('no rank', 'no rank of this host')}\n`);
});

test.each([
  [['--help'], /gradring run .*Start a script[^]*Examples:\n +gradring run -n 4 train\.js/],
  [['run', '--help'], /-n, --ranks[^]*--output-dir[^]*--master-addr[^]*Examples:\n +gradring run -n 4 train\.js/],
  [['run', '-n', '2', '--help', 'train.js'], /--grace-ms/],
  [['--version'], /^\d+\.\d+\.\d+\S*\n$/],
])('%j', async (args, pattern) => {
  const { stdout, ...rest } = await gradringHere(...args);
  expect(rest).toEqual({ exitCode: 0, stderr: '' });
  expect(stdout).toMatch(pattern);
});

test('a wrong command line is one line on stderr, and exit code 2', async () => {
  const program = gradring('run', '-n', 'two', __filename);
  expect((await program.exited).exitCode).toBe(2);
  expect(program.stderr).toMatch(/^gradring: ERR_INVALID_ARGUMENT: --ranks .*\n$/);
  expect(program.stdout).toBe('');
});

test.each([
  [[], 'ERR_INVALID_ARGUMENT: A command is missing'],
  [['rum', '-n', '2'], 'ERR_INVALID_ARGUMENT: Unknown command: rum. Did you mean run?'],
  [['rnu'], 'Unknown command: rnu. Did you mean run?'],
  [['foo'], 'Unknown command: foo. See --help.'],
  [['timeline', 'mrege'], 'Unknown command: mrege. Did you mean merge?'],
  [['timeline', 'merge'], 'An argument is missing. Usage: gradring timeline merge <folder>.'],
  [['timeline', 'merge', 'a', 'b'], 'Unexpected argument: b.'],
  [['run', '-n', '2'], 'ERR_INVALID_ARGUMENT: A script is missing. Usage: gradring run -n <ranks> <script>, or'],
  [['run', '-H', 'x.mjs'], "A script is missing (--hosts took 'x.mjs')."],
  [['run', '--hostfile', 'x.js'], "A script is missing (--hostfile took 'x.js')."],
  [['run', 'x.js'], 'ERR_INVALID_ARGUMENT: How many ranks? Give --ranks (-n), such as -n 4, or --hosts (-H).'],
  [['run', 'a/x.js', '-n', '2'], "Options go before the script; '-n 2' after x.js belongs to x.js."],
  [['run', 'x.js', '-v', '--hosts=a'], "'--hosts=a' after x.js belongs to x.js."],
  [['run', '-np', '4', 'x.js'], 'Unknown option: -np. Did you mean -n?'],
  [['run', '--np', '4', 'x.js'], 'Unknown option: --np. Did you mean -n?'],
  [['run', '-n'], 'ERR_INVALID_ARGUMENT: -n has no value.'],
  [
    ['run', '--output-dir', '--nodes=2'],
    '--output-dir has no value. If the value begins with a dash, write --output-dir=V',
  ],
  [['run', '-n', '2', '--master-prot', '80', __filename], 'Unknown option: --master-prot. Did you mean --master-port?'],
  [['run', '-n', '2', '--nodse', '2', __filename], 'Unknown option: --nodse. Did you mean --nodes?'],
  [['run', '--ransk', '2', __filename], 'Unknown option: --ransk. Did you mean --ranks?'],
  [['run', '-n', '2', '--xyzzy', __filename], 'ERR_INVALID_ARGUMENT: Unknown option: --xyzzy. See --help.'],
  [['run', '-n', '2', '-x', __filename], 'Unknown option: -x. See --help.'],
  [['run', '-n', '2', '/nowhere/x.js'], 'ERR_SCRIPT_NOT_FOUND: /nowhere/x.js does not exist.'],
])('a wrong command line is refused: %j', async (args, words) => {
  await expectRefusal(args, words);
});

test.each([
  [['--ranks', '0'], "--ranks (-n) is '0'; it must be a whole number from 1 to 65535."],
  [['-n', 'two'], "--ranks (-n) is 'two'; it must be a whole number from 1 to 65535."],
  [['-n', ''], "--ranks (-n) is ''; it must be a whole number"],
  [['-n2', '--nodeRank', 'first'], "--node-rank is 'first'; it must be 0, because --nodes is 1."],
  [['-n2', '--node-rank=2', '--nodes=2'], "--node-rank is '2'; it must be a whole number from 0 to 1, because --nodes"],
  [['-n2', '--nodes', 'all'], "--nodes is 'all'; it must be"],
  [['-n2', '--nodes', '65535', '--master-addr=a'], '65535 nodes with 2 ranks each are 131070 ranks; a run has at most'],
  [['-n2', '--nodes', '2'], '--nodes is 2, so --master-addr is needed'],
  [
    ['-n2', '--nodes', '2', '--master-addr=a', '--min=1'],
    '--nodes is 2, but an elastic run (--min, --max-restarts) has one node',
  ],
  [['-n2', '--min', '3'], "--min is '3'; it must be a whole number from 1 to 2, because --ranks (-n) is 2."],
  [['-n2', '--max-restarts', 'no'], "--max-restarts is 'no'; it must be"],
  [['-n2', '--link-rate', '100'], "--link-rate is '100'; it must be a rate such as 10mbit, 1gbit or 2.5gbit"],
  [
    ['-n2', '--stop-after', '55'],
    "ERR_INVALID_ARGUMENT: --stop-after is '55'; it must be a time such as 90s, 55m or 1",
  ],
  [['-n2', '--iface', 'eth99'], "--iface is 'eth99'; it must be a network interface of this host that has an address"],
  [
    ['-n2', '--port-range', '30000'],
    "--port-range is '30000'; it must be the first and the last port, such as 30000-3",
  ],
  [['-n2', '--advertise-addr', '::1'], "--advertise-addr is '::1'; it must be an IP address at which other hosts"],
  [['-n2', '--gpus-per-rank', '1.5'], "--gpus-per-rank is '1.5'; it must be"],
  [['-n2', '--grace-ms', '10s'], "--grace-ms is '10s'; it must be"],
  [['-n2', '--master-port', '1e9'], "--master-port is '1e9'; it must be"],
  [['-n2', '--node-args=--title="a'], `--node-args is '--title="a', in which a double quote has no end.`],
  [
    ['-n2', '--node-args', '--title=a'],
    '--node-args has no value. If the value begins with a dash, write --node-args=V',
  ],
  [['-n2', '--token-file', '/nowhere'], "--token-file is '/nowhere', which does not exist."],
  [['-n2', '--token-file', __dirname], 'which cannot be read: EISDIR'],
  [['-n2', '--output-dir', `${__filename}/logs`], 'Choose another folder with --output-dir.'],
])('a wrong option is named as it is typed: %j', async (options, words) => {
  await expectRefusal(['run', ...options, script('')], words);
});

test('a master port that cannot be had: what says another one is named as it is typed', async () => {
  const server = createServer();
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const taken = gradring('run', '-n', '1', '--master-port', String(port), script(''));
  const nowhere = gradring('run', '-n', '1', '--master-addr', '192.0.2.1', script(''));
  const exits = await Promise.all([taken.exited, nowhere.exited]);
  await new Promise(resolve => server.close(resolve));
  expect(exits.map(({ exitCode }) => exitCode)).toEqual([1, 1]);
  expect(taken.stderr).toContain('in use by another program. Choose another one with --master-port.');
  expect(nowhere.stderr).toContain('192.0.2.1 is no address of this host. Correct --master-addr.');
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

test('gradring run loads no benchmark, no study and little else', () => {
  const program = `require(${JSON.stringify(path.join(ROOT, 'dist/cli.js'))}).main(['run', '--help']).then(() =>
      console.error(JSON.stringify(Object.keys(require.cache))));`;
  const { stderr } = spawnSync(process.execPath, ['-e', program], { encoding: 'utf8' });
  const dist = path.join(ROOT, 'dist') + path.sep;
  const loaded = (JSON.parse(stderr) as string[])
    .filter(file => file.startsWith(dist))
    .map(file => file.slice(dist.length));
  expect(loaded).toContain(path.join('launcher', 'run-command.js'));
  expect(loaded.filter(file => /^(bench|study|doctor|tensorflow|exchange)\b/.test(file))).toEqual([]);
  expect(loaded.length).toBeLessThanOrEqual(120);
});
