import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { launch } from '../../src/launcher/launch';
import { parseHosts, readHostfile } from '../../src/launcher/hosts/host-list';
import { gradringHere } from './run-here';
import { Capture, cleanUp, script, temporaryFolder } from './support';

afterEach(cleanUp);

test.each([
  ['a:2,b:2', [['a', 2], ['b', 2]]],
  ['a, b:3', [['a', 1], ['b', 3]]],
  ['me@node-1.example.org:4', [['me@node-1.example.org', 4]]],
  ['[fd00::1]:2,me@[fe80::1%eth0],10.0.0.5', [['fd00::1', 2], ['me@fe80::1%eth0', 1], ['10.0.0.5', 1]]],
])('the hosts %s', (text, hosts) => {
  expect(parseHosts(text, '-H')).toEqual(hosts.map(([host, ranks]) => ({ host, ranks })));
}); // prettier-ignore

test.each(['', 'a,,b', 'a:0', 'a:x', 'a:2:3', 'a b', '-oProxyCommand=x', 'a,-l', 'fd00::1', 'a:1,b,a:2'])(
  'the hosts %j are an error',
  text => {
    expect(() => parseHosts(text, '--hosts (-H)')).toThrow(/^--hosts \(-H\)(: '.*' is no host| has a twice)/);
  },
);

describe('a hostfile', () => {
  const fileWith = (text: string) => {
    const file = path.join(temporaryFolder(), 'hosts');
    writeFileSync(file, text);
    return file;
  };

  test('has a host on each line, as for Open MPI or as in --hosts', () => {
    const hosts = readHostfile(fileWith('# all\na slots=2  # the first\n\n b:3\r\nc\n'), '--hostfile', 4);
    expect(hosts).toEqual([{ host: 'a', ranks: 2 }, { host: 'b', ranks: 3 }, { host: 'c', ranks: 4 }]); // prettier-ignore
  });

  test.each([
    ['a\nb slots=x\n', /hosts:2: 'b slots=x' is no host/],
    ['# none\n', /names no host/],
    ['a\na\n', /has a twice/],
  ])('%j is an error that names the place', (text, message) => {
    expect(() => readHostfile(fileWith(text), '--hostfile')).toThrow(message);
  });

  test('that is not there is an error', () => {
    expect(() => readHostfile('/no/such/file', '--hostfile')).toThrow(/--hostfile is '\/no\/such\/file', which cannot/);
  });
});

test.each([
  [['-H', 'a', '--hostfile', 'b'], 'Give --hosts (-H) or --hostfile, not both.'],
  [['-H', 'a:0'], "--hosts (-H): 'a:0' is no host"],
  [['-H', 'a', '-n', 'x'], "--ranks is 'x'; it must be a whole number"],
  [['-H', 'a', '--nodes', '2'], '--hosts and --nodes do not go together.'],
  [['-H', 'a', '--min', '1'], '--hosts and --min do not go together.'],
])('run %j is a mistake', async (args, message) => {
  const { exitCode, stderr } = await gradringHere('run', ...args, __filename);
  expect(stderr).toContain(`gradring: ERR_INVALID_ARGUMENT: ${message}`);
  expect(exitCode).toBe(2);
});

test('localhost needs no ssh; lines begin with the host', async () => {
  const file = script('console.log(process.env.RANK, process.env.WORLD_SIZE, process.env.GRADRING_RUN_TOKEN.length)');
  const [stdout, stderr] = [new Capture(), new Capture()];
  const hosts = [{ host: 'localhost', ranks: 2 }];
  const { exitCode, ranks } = await launch({ script: file, hosts, stdout, stderr });
  expect({ exitCode, stderr: stderr.text }).toEqual({ exitCode: 0, stderr: '' });
  expect(stdout.lines.toSorted()).toEqual(['[localhost 0] 0 2 64', '[localhost 1] 1 2 64']);
  expect(ranks).toMatchObject([{ rank: 0, host: 'localhost' }, { rank: 1, host: 'localhost' }]); // prettier-ignore
});
