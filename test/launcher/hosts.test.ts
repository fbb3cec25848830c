import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { launch } from '../../src/launcher/launch';
import { type LaunchOptions, planLaunch } from '../../src/launcher/launch-options';
import { parseHosts, readHostfile } from '../../src/launcher/hosts/host-list';
import { gradringHere } from './run-here';
import { Capture, cleanUp, script, temporaryFolder, UNCONNECTED } from './support';

afterEach(cleanUp);

test.each([
  ['a:2,b:2', [['a', 2], ['b', 2]]],
  ['a, b:3', [['a', undefined], ['b', 3]]],
  ['me@node-1.example.org:4', [['me@node-1.example.org', 4]]],
  ['[fd00::1]:2,me@[fe80::1%eth0],10.0.0.5', [['fd00::1', 2], ['me@fe80::1%eth0', undefined], ['10.0.0.5', undefined]]],
])('the hosts %s', (text, hosts) => {
  expect(parseHosts(text, '-H')).toEqual(hosts.map(([host, ranks]) => ({ host, ranks })));
}); // prettier-ignore

test.each(['', 'a,,b', 'a:x', 'a:2:3', 'a b', '-oProxyCommand=x', 'a,-l', 'fd00::1', 'a:1,b,a:2'])(
  'the hosts %j are an error',
  text => {
    expect(() => parseHosts(text, '--hosts (-H)')).toThrow(/^--hosts \(-H\)(: '.*' is no host| has a twice)/);
  },
);

test.each([
  ['a:2,', "'a:2,' ends with a comma; write the list without spaces: a:2,b:2."],
  ['a:1,b:0', 'b has 0 ranks; a host gets 1 rank or more.'],
  ['fd00::1', "'fd00::1' is no host; write an IPv6 address in brackets, such as [fd00::1]:2."],
])('the hosts %j are an error that says what to write', (text, words) => {
  expect(() => parseHosts(text, '-H')).toThrow(`-H: ${words}`);
});

describe('a hostfile', () => {
  const fileWith = (text: string) => {
    const file = path.join(temporaryFolder(), 'hosts');
    writeFileSync(file, text);
    return file;
  };

  test('has a host on each line, as for Open MPI or as in --hosts', () => {
    const hosts = readHostfile(fileWith('# all\na slots=2  # the first\n\n b:3\r\nc\n'), '--hostfile');
    expect(hosts).toEqual([{ host: 'a', ranks: 2 }, { host: 'b', ranks: 3 }, { host: 'c' }]); // prettier-ignore
  });

  test('may repeat its hosts: a line for each rank, as PBS writes it', () => {
    const hosts = readHostfile(fileWith('b\nb\na\nb\nc:4\n'), '--hostfile');
    expect(hosts).toEqual([{ host: 'b', ranks: 3 }, { host: 'a', ranks: 1 }, { host: 'c', ranks: 4 }]); // prettier-ignore
  });

  test.each([
    ['a\nb slots=x\n', /hosts:2: 'b slots=x' is no host; only slots=N may follow a name\.$/],
    ['a slots=2 max_slots=4\n', /hosts:1: 'a slots=2 max_slots=4' is no host; only slots=N may follow a name\.$/],
    ['b s\n', /hosts:1: 'b s' is no host; write a name and how many ranks it gets, such as node1:2\.$/],
    ['fd00::1 slots=2\n', /hosts:1: 'fd00::1 slots=2' is no host; write an IPv6 address in brackets/],
    ['b\na:0\n', /hosts:2: a has 0 ranks; a host gets 1 rank or more\.$/],
    ['# none\n', /names no host/],
    ['a:1\na:1\n', /has a twice; give it all its ranks at once/],
    ['a\nb\na slots=2\n', /has a twice/],
  ])('%j is an error that names the place', (text, message) => {
    expect(() => readHostfile(fileWith(text), '--hostfile')).toThrow(message);
  });

  test('that is not there is an error', () => {
    expect(() => readHostfile('/no/such/file', '--hostfile')).toThrow(
      "--hostfile is '/no/such/file', which does not exist.",
    );
  });
});

/** A hostfile with one host that has no number. */
function hostfile(): string {
  const file = path.join(temporaryFolder(), 'hosts');
  writeFileSync(file, 'a');
  return file;
}

test.each([
  [['-H', 'a', '--hostfile', 'b'], 'Give --hosts (-H) or --hostfile, not both.'],
  [['-H', 'a:0'], '--hosts (-H): a has 0 ranks'],
  [['-H', 'a', '-n', 'x'], "--ranks (-n) is 'x'; it must be a whole number"],
  [['-H', 'a:1,b:70000'], '--hosts (-H) asks for 70001 ranks; a run has at most 65535.'],
  [
    ['-H', 'a:2,b:2', '-n', '3'],
    "--ranks (-n) is '3', but every host in --hosts (-H) has its own number. Leave out one of them.",
  ],
  [
    ['-H', 'a', '--nodes', '2'],
    '--nodes is for a launcher on each host; with --hosts (-H) one launcher starts all ranks.',
  ],
  [['HOSTFILE', '--min', '2'], "--min is '2'; it must be 1, because --hostfile has 1 rank"],
  [['-H', 'a', '--advertise-addr', '10.0.0.1'], '--advertise-addr is about one host; --hosts (-H) may name'],
  [['-n', '2', '--ssh-args=-v'], '--ssh-args needs --hosts or --hostfile.'],
  [['-H', 'localhost', '--token-file', '/nope'], "--token-file is '/nope', which does not exist."],
  [['-H', 'localhost', '--token-file', __filename], 'hexadecimal'],
])('run %j is a mistake', async (args, message) => {
  const options = args.flatMap(arg => (arg === 'HOSTFILE' ? ['--hostfile', hostfile()] : [arg]));
  const { exitCode, stderr } = await gradringHere('run', ...options, script(''));
  expect(stderr).toMatch(/^gradring: ERR_INVALID_(ARGUMENT|ENVIRONMENT): .*\n$/);
  expect(stderr).toContain(message);
  expect(exitCode).toBe(2);
});

const planOf = (options: Partial<LaunchOptions>) => planLaunch({ script: script(''), ...options });

test.each<[Partial<LaunchOptions>, string]>([
  [{ hosts: [{ host: '-oProxyCommand=x', ranks: 1 }] }, "hosts: '-oProxyCommand=x' is no host."],
  [{ hosts: [{ host: 'a b', ranks: 1 }] }, "hosts: 'a b' is no host."],
  [{ hosts: [{ host: 'a' }, { host: 'b' }, { host: 'a' }] }, 'hosts has a twice'],
  [
    {
      hosts: [
        { host: 'a', ranks: 3 },
        { host: 'b', ranks: -1 },
      ],
    },
    'hosts: b has -1 ranks; a host gets 1 rank or more.',
  ],
  [{ hosts: [{ host: 'a', ranks: 1.5 }] }, 'hosts: a has 1.5 ranks'],
  [{ hosts: [] }, 'hosts names no host.'],
  [{ hosts: [{ host: 'a', ranks: 2 }], ranks: 2 }, 'ranks is 2, but every host in hosts has its own number.'],
  [{ ranks: 2, sshArgs: ['-v'] }, 'sshArgs needs hosts.'],
])('a program that launches %j is told its mistake', (options, message) => {
  expect(() => planOf(options)).toThrow(message);
});

test('ranks is the number of each host that has none', () => {
  const hosts = [{ host: 'a', ranks: 3 }, { host: 'me@fd00::1' }];
  expect(planOf({ hosts, ranks: 2 })).toMatchObject({ ranks: 5, remote: { hosts: [hosts[0], { ranks: 2 }] } });
  expect(planOf({ hosts })).toMatchObject({ ranks: 4, remote: { hosts: [hosts[0], { ranks: 1 }] } });
});

test('the address of the master may be in brackets; an empty one is none', () => {
  const hosts = [{ host: 'a' }];
  expect(planOf({ hosts, masterAddr: '[::1]' }).remote).toMatchObject({ masterAddr: '::1' });
  expect(planOf({ hosts, masterAddr: '' }).remote).toMatchObject({ masterAddr: undefined });
});

test('localhost needs no ssh; lines begin with the host', async () => {
  const file = script('console.log(process.env.RANK, process.env.WORLD_SIZE, process.env.GRADRING_RUN_TOKEN.length)');
  const [stdout, stderr] = [new Capture(), new Capture()];
  const hosts = [{ host: 'localhost', ranks: 2 }];
  const { exitCode, ranks } = await launch({ script: file, hosts, stdout, stderr });
  expect({ exitCode, stderr: stderr.text }).toEqual({ exitCode: 0, stderr: `${UNCONNECTED}\n` });
  expect(stdout.lines.toSorted()).toEqual(['[localhost 0] 0 2 64', '[localhost 1] 1 2 64']);
  expect(ranks).toMatchObject([{ rank: 0, host: 'localhost' }, { rank: 1, host: 'localhost' }]); // prettier-ignore
});
