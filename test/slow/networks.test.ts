import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Ended, Host, removeHosts } from './support/hosts';
import { describeWith } from './support/programs';
import { whoProgram } from './support/who';

const CLI = path.join(__dirname, '../../dist/cli.js');
const MASTER_PORT = 31_000;

/** The gradients of the ranks of a host cancel where they are largest. So what is sent is the rest, 1 on each rank. */
const BETWEEN_HOSTS = `
const { connect, dgc } = require(${JSON.stringify(path.join(CLI, '../core.js'))});
(async () => {
  const ring = await connect();
  const { rank } = ring;
  const group = await ring.group(Math.floor(rank / 2));
  const [sum] = await group.allReduce(Int32Array.of(rank));
  const [[received]] = await Promise.all([ring.receive(3 - rank), ring.send(Int32Array.of(rank), 3 - rank)]);
  const compression = dgc({ sparsity: 0.99, warmUpEpochs: 0, perHost: true });
  const gradients = ring.gradients({ matrix: [100, 100] }, { compression });
  const gradient = Float32Array.from({ length: 10_000 }, (_, i) => (i < 100 ? 100 * (-1) ** rank : Number(i < 200)));
  const { matrix } = await gradients.step({ matrix: gradient });
  const sent = matrix.filter(each => each !== 0).length;
  console.log(\`rank \${rank}: group of \${group.worldSize}, sum \${sum}; received \${received}; update \${matrix[0]} \${matrix[100]}, \${sent} elements\`);
  await ring.close();
})();
`;

let project: string;
beforeAll(() => {
  project = mkdtempSync(path.join(tmpdir(), 'gradring-networks-'));
  writeFileSync(path.join(project, 'who.js'), whoProgram(path.join(CLI, '../core.js'), 300_000));
  writeFileSync(path.join(project, 'between.js'), BETWEEN_HOSTS);
  writeFileSync(path.join(project, 'token'), randomBytes(32).toString('hex'), { mode: 0o600 });
});
afterAll(() => rmSync(project, { recursive: true }));

const gradring = (host: Host, args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  host.run([process.execPath, CLI, ...args], env, project);

/** Options of `gradring run` for both hosts, or for each. */
type Options = readonly string[] | readonly [readonly string[], readonly string[]];

/** One run on two hosts, whose node 0 is the first. */
async function train(
  hosts: readonly Host[],
  masterAddr: string,
  options: Options = [],
  env: NodeJS.ProcessEnv = {},
  program = 'who.js',
) {
  const common = ['--nodes', '2', '--master-addr', masterAddr, '--master-port', String(MASTER_PORT), '--no-gpu'];
  const ended = await Promise.all(
    hosts.map((host, nodeRank) => {
      const own = (Array.isArray(options[nodeRank]) ? options[nodeRank] : options) as readonly string[];
      const counts = own.includes('-n') ? [] : ['-n', '1'];
      const args = ['run', ...counts, ...common, '--node-rank', String(nodeRank), '--token-file', 'token', ...own];
      return gradring(host, [...args, program], { GRADRING_CONNECT_TIMEOUT_MS: '20000', ...env });
    }),
  );
  const output = ended.map(each => each.output).join('\n');
  return { output, ranks: (output.match(/rank \d of \d, sum \d/g) ?? []).sort() };
}

const ringOf = (worldSize: number) =>
  Array.from(
    { length: worldSize },
    (_, rank) => `rank ${rank} of ${worldSize}, sum ${(worldSize * (worldSize - 1)) / 2}`,
  );

async function expectRing(worldSize: number, ...args: Parameters<typeof train>): Promise<void> {
  const { output, ranks } = await train(...args);
  expect({ output, ranks }).toEqual({ output, ranks: ringOf(worldSize) });
}

async function expectFailure(message: RegExp, ...args: Parameters<typeof train>): Promise<void> {
  const { output, ranks } = await train(...args);
  expect(output).toMatch(message);
  expect(ranks).toEqual([]);
}

/** What `gradring doctor` says on a host that listens, and on one that connects to it. */
async function check(listens: Host, listenOptions: string[], connects: Host, address: string, options: string[] = []) {
  const port = ['--master-port', String(MASTER_PORT)];
  const answered = gradring(listens, ['doctor', '--listen', ...port, ...listenOptions]);
  let asked: Ended;
  do asked = await gradring(connects, ['doctor', '--connect', address, ...port, ...options]);
  while (asked.output.includes('refused: nothing listens there')); // it starts
  return { asked, answered: await answered };
}

/** A firewall that lets in what belongs to its own connections, and new connections to these ports. */
const lettingIn = (...rules: string[]) => `table inet filter {
  chain input {
    type filter hook input priority 0; policy drop
    iif lo accept
    ct state established,related accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
    ${rules.join('\n    ')}
  }
}`;

const TOO_LATE = { GRADRING_CONNECT_TIMEOUT_MS: '6000' };

describeWith(['ip', 'nft'], 'networks between two hosts', () => {
  afterAll(removeHosts);

  describe('with two interfaces, and firewalls', () => {
    let hosts: [Host, Host];
    beforeAll(() => {
      hosts = [new Host(), new Host()];
      Host.connect(hosts[0], 'eth0 10.0.0.1/24 fd00::1/64', hosts[1], 'eth0 10.0.0.2/24 fd00::2/64');
      Host.connect(hosts[0], 'eth1 10.1.0.1/24', hosts[1], 'eth1 10.1.0.2/24');
    });
    beforeEach(() => hosts.forEach(host => host.setFirewall('')));

    test('--iface names the interface, where the one to the master lets only the rendezvous in', async () => {
      hosts.forEach(host => host.setFirewall(lettingIn(`tcp dport ${MASTER_PORT} accept`, 'iifname "eth1" accept')));
      await expectFailure(
        /ERR_RENDEZVOUS_TIMEOUT .* 'npx gradring doctor --connect' tells/,
        hosts,
        '10.0.0.1',
        [],
        TOO_LATE,
      );
      await expectRing(2, hosts, '10.0.0.1', ['--iface', 'eth1']);
      await expectFailure(/--iface is 'eth2'; it must be .*: lo, eth0, eth1\./, hosts, '10.0.0.1', ['--iface', 'eth2']);
    }, 120_000);

    test('two ranks on each host: groups, messages, and one gradient for each host', async () => {
      const { output } = await train(hosts, '10.0.0.1', ['-n', '2'], {}, 'between.js');
      const lines = [0, 1, 2, 3].map(
        rank => `rank ${rank}: group of 2, sum ${rank < 2 ? 1 : 5}; received ${3 - rank}; update 0 1, 100 elements`,
      );
      expect(output.match(/rank \d: .*/g)?.sort()).toEqual(lines);
    }, 60_000);

    test('--port-range keeps to the ports that the firewall lets in, two for a host', async () => {
      hosts.forEach(host => host.setFirewall(lettingIn(`tcp dport { ${MASTER_PORT}, 30000-30001 } accept`)));
      await expectRing(4, hosts, '10.0.0.1', ['-n', '2', '--port-range', '30000-30001']);
      const one = ['--port-range', '30000-30000'];
      await expectFailure(/ERR_ADDRESS_IN_USE .*All ports of the range 30000-30000 are in use/, hosts, '10.0.0.1', one);
    }, 120_000);

    test('doctor --connect tells which port, in which direction, is blocked', async () => {
      hosts[0].setFirewall(lettingIn(`tcp dport { ${MASTER_PORT}, 30000-30050 } accept`));
      const range = ['--port-range', '30000-30100'];
      for (const address of ['10.0.0.1', `[fd00::1]:${MASTER_PORT}`]) {
        const { asked, answered } = await check(hosts[0], range, hosts[1], address);
        expect(asked.output).toMatch(
          /^ok +Master port .*: open\nok +From here +to \S+, ports 30000, 30050: open\nproblem +From here +to \S+, port 30100: filtered.*\nok +To here .*: open\n$/,
        );
        expect(answered.output).toMatch(/^problem +To here +from \S+, port 30100: filtered: no answer within 3 s/m);
        expect([asked.code, answered.code]).toEqual([1, 1]);
      }
      const { asked } = await check(hosts[1], [], hosts[0], '10.0.0.2', ['--port-range', '40000-40000']);
      expect(asked.output).toMatch(/^ok +From here .*\nproblem +To here +from 10\.0\.0\.2, port 40000: filtered/m);
      hosts[0].setFirewall(lettingIn('tcp dport 30000-30050 accept', 'reject'));
      const rejected = await gradring(hosts[1], ['doctor', '--connect', `10.0.0.1:${MASTER_PORT}`]);
      expect(rejected.output).toMatch(
        /^problem +Master port +10\.0\.0\.1, port 31000: (refused|unreachable).*firewall rejects/,
      );
      hosts[0].setFirewall(lettingIn());
      const dropped = await gradring(hosts[1], ['doctor', '--connect', `10.0.0.1:${MASTER_PORT}`]);
      expect(dropped.output).toMatch(
        /port 31000: filtered: no answer within 3 s, so a firewall drops it, or that host is/,
      );
    }, 120_000);

    test('doctor uses the interface of GRADRING_IFACE', async () => {
      hosts.forEach(host => host.setFirewall(lettingIn('iifname "eth1" accept')));
      const env = { GRADRING_IFACE: 'eth1', GRADRING_ADVERTISE_ADDR: '192.0.2.7', GRADRING_BACKEND: 'cpu' };
      const args = ['doctor', '--master-addr', '10.0.0.1', '--json'];
      const { findings } = JSON.parse((await gradring(hosts[1], args, env)).output.split('\n')[0]!) as {
        findings: { what: string; details: object }[];
      };
      const network = findings.find(({ what }) => what === 'Network');
      expect(network?.details).toMatchObject({ wouldListenAt: '10.1.0.2', wouldTell: '192.0.2.7' });
      const { asked } = await check(hosts[0], [], hosts[1], '10.1.0.1');
      expect(asked.code).toBe(0);
    }, 120_000);

    test('a name with addresses of both kinds works where only IPv4 does', async () => {
      hosts.forEach(host => host.setNames('10.0.0.1 master\nfd00:1::1 master'));
      hosts[1].ip('-6', 'route', 'add', 'blackhole', 'fd00:1::/64');
      await expectRing(2, hosts, 'master');
    }, 60_000);
  });

  test('that have only IPv6', async () => {
    const hosts = [new Host(), new Host()] as const;
    Host.connect(hosts[0], 'eth0 fd00::1/64', hosts[1], 'eth0 fd00::2/64');
    hosts.forEach(host => host.setNames('fd00::1 master'));
    for (const master of ['fd00::1', '[fd00::1]', 'master']) await expectRing(2, hosts, master);
    await expectRing(2, hosts, 'master', ['--iface', 'eth0', '--port-range', '30000-30001']);
  }, 120_000);

  test('--advertise-addr makes a host behind NAT a neighbour, and the master', async () => {
    const [inner, router, outer] = [new Host(), new Host(), new Host()];
    Host.connect(inner, 'eth0 192.168.9.2/24', router, 'in 192.168.9.1/24');
    Host.connect(outer, 'eth0 10.0.0.2/24', router, 'out 10.0.0.9/24');
    inner.ip('route', 'add', 'default', 'via', '192.168.9.1');
    expect((await router.run(['sysctl', '-qw', 'net.ipv4.ip_forward=1'])).output).toBe('');
    router.setFirewall(`table ip nat {
      chain prerouting {
        type nat hook prerouting priority -100
        iifname "out" tcp dport { ${MASTER_PORT}, 30000-30001 } dnat to 192.168.9.2
      }
      chain postrouting {
        type nat hook postrouting priority 100
        oifname "out" masquerade
      }
    }`);
    const inside = ['--port-range', '30000-30001', '--advertise-addr', '10.0.0.9'];
    await expectRing(2, [inner, outer], '10.0.0.9', [inside, []]);
    await expectFailure(
      /ERR_(PEER_LOST|RENDEZVOUS_TIMEOUT)/,
      [inner, outer],
      '10.0.0.9',
      [inside.slice(0, 2), []],
      TOO_LATE,
    );
    const { asked, answered } = await check(inner, inside.slice(0, 2), outer, '10.0.0.9');
    expect(asked.output).toMatch(/From here +to 10\.0\.0\.9, ports 30000, 30001: open/);
    expect([asked.code, answered.code]).toEqual([0, 0]);
  }, 120_000);
});
