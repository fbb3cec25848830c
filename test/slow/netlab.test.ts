import { spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import path from 'node:path';
import { isRunning, ROOT, SAY_READY, script } from '../launcher/support';
import { finished, json, netlab, NETLAB, ownLab, partsOf, printed, removeLabs } from './support/netlab';
import { describeWith } from './support/programs';

afterEach(removeLabs);

/** Makes a lab and returns its addresses, by rank. */
async function up(lab: string, ranks: number, ...options: string[]): Promise<string[]> {
  const { exitCode, stdout, stderr } = await finished('up', String(ranks), '--name', lab, ...options);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  const [, prefix] = /, (10\.77\.\d+\.)1 … /.exec(stdout)!;
  return Array.from({ length: ranks }, (_, rank) => `${prefix}${rank + 1}`);
}

/** What connecting to a port that nobody listens at ends with. A host that is there refuses. */
function connectionError(host: string): Promise<string | undefined> {
  return new Promise(resolve => {
    const socket = connect({ host, port: 9 });
    socket.setTimeout(500, () => socket.destroy(Object.assign(new Error(), { code: 'silence' })));
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  });
}

describeWith(['ip'], 'the network lab', () => {
  test('has addresses, links shaped at both ends, and connects all ranks; down leaves nothing', async () => {
    const lab = ownLab('a');
    const addresses = await up(lab, 3, '--rate', '100mbit');
    for (const [rank, address] of addresses.entries()) {
      const links = json<{ ifname: string; operstate: string; addr_info: { local: string }[] }[]>(
        ...(['ip', '-n', `nl-${lab}-${rank}`, '-json', '-4', 'address', 'show'] as const),
      );
      expect(links.map(({ ifname, addr_info }) => [ifname, addr_info.map(({ local }) => local)])).toEqual([
        ['lo', ['127.0.0.1']],
        ['eth0', [address]],
      ]);
      const bucket = { kind: 'tbf', root: true, options: { rate: 12_500_000, burst: 12_500 } };
      const inside = json('tc', '-n', `nl-${lab}-${rank}`, '-json', 'qdisc', 'show', 'dev', 'eth0');
      expect(inside).toMatchObject([bucket]);
      expect(json('tc', '-json', 'qdisc', 'show', 'dev', `nl-${lab}-${rank}`)).toMatchObject([bucket]);
      expect(await connectionError(address)).toBe('ECONNREFUSED'); // reachable from this host
    }
    const toAll = script(`
      for (const host of ${JSON.stringify(addresses)})
        require('node:net').connect({ host, port: 9 }).on('error', ({ code }) => console.log(host, code));`);
    const { stdout } = await finished('exec', '--name', lab, '--no-prefix', '--', process.execPath, toAll);
    const expected = addresses.flatMap(address => Array<string>(3).fill(`${address} ECONNREFUSED`));
    expect(stdout.trim().split('\n').sort()).toEqual(expected);

    expect(partsOf(lab)).toHaveLength(3 + 1 + 3);
    expect(await finished('down', '--name', lab)).toEqual({ exitCode: 0, stdout: '', stderr: '' });
    expect(partsOf(lab)).toEqual([]);
    expect((await finished('down', '--name', lab)).exitCode).toBe(0);
  });

  test('has no queueing discipline of its own with --rate none', async () => {
    const lab = ownLab('b');
    await up(lab, 1, '--rate', 'none');
    expect(JSON.stringify(json('tc', '-json', 'qdisc', 'show', 'dev', `nl-${lab}-0`))).not.toMatch('tbf');
    expect(JSON.stringify(json('tc', '-n', `nl-${lab}-0`, '-json', 'qdisc', 'show'))).not.toMatch('tbf');
  });

  test('exec tells each rank who it is, and gives arguments on as they are', async () => {
    const lab = ownLab('c');
    const addresses = await up(lab, 2);
    const tell = script(`
      const { RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT } = process.env;
      console.log(JSON.stringify({ RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
        args: process.argv.slice(2) }));`);
    const command = ['--', process.execPath, tell, '{rank}', 'r{rank}-{rank}', '1.0', '--rank', 'a b', '*'];
    const { exitCode, stdout } = await finished('exec', '--name', lab, '--master-port', '1234', ...command);
    const common = { WORLD_SIZE: '2', LOCAL_RANK: '0', LOCAL_WORLD_SIZE: '1', MASTER_ADDR: addresses[0] };
    const told = ['0', '1'].map(rank => {
      const args = [rank, `r${rank}-${rank}`, '1.0', '--rank', 'a b', '*'];
      return { ...common, RANK: rank, MASTER_PORT: '1234', args };
    });
    expect({ exitCode, told: printed(stdout) }).toEqual({ exitCode: 0, told });
    const one = await finished(
      'exec',
      '--name',
      lab,
      '--rank',
      '1',
      '--no-prefix',
      '--',
      'sh',
      '-c',
      'echo $RANK/$WORLD_SIZE',
    );
    expect(one).toEqual({ exitCode: 0, stdout: '1/2\n', stderr: '' });
  });

  test('exec ends the others when a rank fails, with the exit code of that rank', async () => {
    const lab = ownLab('d');
    await up(lab, 3);
    const fail = script(`if (process.env.RANK === '1') process.exit(7); setInterval(() => {}, 1000);`);
    const { exitCode, stderr } = await finished('exec', '--name', lab, '--', process.execPath, fail);
    expect(exitCode).toBe(7);
    expect(stderr).toMatch(/rank 1 .* failed with exit code 7.*rank 0 SIGTERM, rank 2 SIGTERM/);
    expect((await finished('exec', '--name', lab, '--', 'no-such-command')).exitCode).toBe(127);
  });

  test('a process left behind that holds the output open does not hold up the end, and ends with the lab', async () => {
    const lab = ownLab('l');
    const leave = ['--no-prefix', '--', 'sh', '-c', 'setsid sleep 600 & echo $!'];
    const { exitCode, stdout } = await finished('with', '1', '--name', lab, ...leave);
    expect({ exitCode, isLeft: isRunning(Number(stdout)) }).toEqual({ exitCode: 0, isLeft: false });
  });

  test.each(['SIGINT', 'SIGTERM'] as const)('exec passes %s on', async signal => {
    const lab = ownLab('e');
    await up(lab, 2);
    const wait = script(`
      process.on('${signal}', () => { console.log('got ${signal}'); process.exit(0); });
      setInterval(() => {}, 1000); ${SAY_READY}`);
    const program = netlab('exec', '--name', lab, '--', process.execPath, wait);
    await program.readyRanks(2);
    program.child.kill(signal);
    expect((await program.exited).exitCode).toBe(0);
    for (const rank of [0, 1]) expect(program.stdout).toMatch(`[${rank}] got ${signal}\n`);
  });

  test('a ring in it sends through its links, over TCP', async () => {
    const lab = ownLab('f');
    const elementCount = 300_000;
    const allReduce = script(`
      const { connect } = require(${JSON.stringify(path.join(ROOT, 'dist/core.js'))});
      const { readFileSync } = require('node:fs');
      const count = what => Number(readFileSync('/sys/class/net/' + what, 'utf8'));
      (async () => {
        const ring = await connect();
        const before = [count('eth0/statistics/tx_bytes'), count('eth0/statistics/rx_bytes')];
        await ring.barrier(); // from here on others may send
        const [sum] = await ring.allReduce(new Float32Array(${elementCount}).fill(ring.rank + 1));
        await ring.barrier();
        const sent = count('eth0/statistics/tx_bytes') - before[0];
        const received = count('eth0/statistics/rx_bytes') - before[1];
        console.log(JSON.stringify({ sum, sent, received, loopback: count('lo/statistics/tx_bytes') }));
        await ring.close();
      })();`);
    const { exitCode, stdout, stderr } = await finished('with', '3', '--name', lab, '--', process.execPath, allReduce);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    const ranks = printed<{ sum: number; sent: number; received: number; loopback: number }>(stdout);
    expect(ranks.map(({ sum }) => sum)).toEqual([6, 6, 6]);
    const bytes = (2 * (3 - 1) * elementCount * 4) / 3; // of a ring all-reduce, each way
    for (const { sent, received, loopback } of ranks) {
      expect(Math.min(sent, received)).toBeGreaterThan(bytes);
      expect(loopback).toBeLessThan(0.01 * bytes);
    }
    expect(partsOf(lab)).toEqual([]);
  });

  test('processes in different namespaces are no one host to the rendezvous, though they share all files', async () => {
    const lab = ownLab('g');
    await up(lab, 2);
    const file = path.join(ROOT, 'dist/rendezvous/host-identity.js');
    const print = `process.stdout.write(require(${JSON.stringify(file)}).hostId())`;
    const hostIdIn = (rank: number) => {
      // Unlike `ip netns exec`, this changes nothing but the network namespace.
      const args = [`--net=/var/run/netns/nl-${lab}-${rank}`, process.execPath, '-e', print];
      return spawnSync('nsenter', args, { encoding: 'utf8' }).stdout;
    };
    expect(hostIdIn(0)).toMatch(/^[0-9a-f]{16}$/);
    expect(hostIdIn(0)).toBe(hostIdIn(0));
    expect(hostIdIn(1)).not.toBe(hostIdIn(0));
  });

  test('a cable that is cut loses everything, until it is mended', async () => {
    const lab = ownLab('h');
    const [, address] = await up(lab, 2);
    expect(await connectionError(address!)).toBe('ECONNREFUSED');
    expect((await finished('cut', '1', '--name', lab)).exitCode).toBe(0);
    expect(await connectionError(address!)).toMatch(/^(silence|EHOSTUNREACH)$/);
    expect((await finished('mend', '1', '--name', lab)).exitCode).toBe(0);
    let code: string | undefined;
    do code = await connectionError(address!);
    while (code !== 'ECONNREFUSED'); // the test's own deadline ends this
    expect((await finished('cut', '2', '--name', lab)).stderr).toMatch(/has ranks 0 to 1/);
  });

  test('two labs at once do not collide', async () => {
    const where = script(
      `console.log(JSON.stringify({ master: process.env.MASTER_ADDR })); setTimeout(() => {}, 500);`,
    );
    const all = await Promise.all([1, 2, 3].map(() => finished('with', '2', '--', process.execPath, where)));
    expect(all.map(({ exitCode, stderr }) => ({ exitCode, stderr }))).toEqual(
      Array(3).fill({ exitCode: 0, stderr: '' }),
    );
    const masters = all.map(({ stdout }) => printed<{ master: string }>(stdout).map(({ master }) => master));
    for (const [first, second] of masters) expect(second).toBe(first);
    expect(new Set(masters.flat()).size).toBe(3);
  });

  test('what is there already is refused, and left alone', async () => {
    const lab = ownLab('i');
    const other = ownLab('j');
    const [address] = await up(lab, 1);
    const subnet = address!.replace(/1$/, '0/24');
    const parts = partsOf(lab);
    expect((await finished('up', '1', '--name', lab)).stderr).toMatch(`lab '${lab}' exists already`);
    const taken = await finished('up', '1', '--name', other, '--subnet', subnet);
    expect(taken).toMatchObject({
      exitCode: 2,
      stderr: expect.stringMatching(`${subnet} is in use by interface nl-${lab}`),
    });
    expect(partsOf(other)).toEqual([]);
    expect(partsOf(lab)).toEqual(parts);
    expect((await finished('exec', '--name', other, '--', 'true')).stderr).toMatch(`there is no lab '${other}'`);
  });

  test('down removes a lab that is not whole, and what runs in it', async () => {
    const lab = ownLab('k');
    spawnSync('ip', ['netns', 'add', `nl-${lab}-5`]);
    spawnSync('ip', ['link', 'add', `nl-${lab}-2`, 'type', 'veth', 'peer', 'name', `nl-${lab}`]);
    const { stdout } = spawnSync('ip', [
      'netns',
      'exec',
      `nl-${lab}-5`,
      'sh',
      '-c',
      'setsid sleep 600 >&- 2>&- & echo $!',
    ]);
    expect(partsOf(lab)).toHaveLength(3);
    expect((await finished('down', '--name', lab)).exitCode).toBe(0);
    expect(partsOf(lab)).toEqual([]);
    expect(isRunning(Number(stdout))).toBe(false);
  });

  test.each([
    ['no command', [], 'Which command?'],
    ['too many ranks', ['up', '251'], 'the number of ranks must be a whole number from 1 to 250'],
    ['no rank', ['up', '0'], 'the number of ranks must be a whole number from 1 to 250'],
    ['no number', ['up', 'many'], 'the number of ranks must be a whole number from 1 to 250'],
    ['a malformed rate', ['up', '2', '--rate', '1gigabit'], "--rate is '1gigabit'"],
    ['a malformed subnet', ['up', '2', '--subnet', '10.0.0.0/8'], "--subnet is '10.0.0.0/8'"],
    ['a long name', ['up', '2', '--name', 'laboratory'], "'laboratory' is no valid name for a lab"],
    ['an unknown option', ['up', '2', '--rat', '1gbit'], 'Unknown argument: rat'],
    ['nothing to run', ['with', '2'], 'there is no command to run'],
  ])('%s is told', async (_what, args, message) => {
    const { exitCode, stderr } = await finished(...args);
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining(`netlab: ${message}`) });
  });

  test('it tells when iproute2 is missing', () => {
    const { status, stderr } = spawnSync(process.execPath, [NETLAB, 'up', '2'], {
      env: { PATH: '' },
      encoding: 'utf8',
    });
    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining('install iproute2') });
  });
});
