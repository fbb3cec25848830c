import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder, cleanUpRanks } from '../support/rings';
import { describeWhere, needs } from '../support/test-where';

const DIST = path.join(__dirname, '../../dist');
const CLI = path.join(DIST, 'cli.js');
const WORDS =
  'The loopback interface of this host is down. Ranks of one host meet there. Run `ip link set lo up` as root, in the network namespace of this process.';
const TRAINING = `
  const { connect } = require(${JSON.stringify(path.join(DIST, 'core.js'))});
  connect().then(ring => ring.close()).then(() => console.log('done'), ({ code, message }) => console.log(code + ': ' + message));`;

/** Runs node in a new network, whose loopback interface is down. */
function runInNewNetwork(args: string[], env: NodeJS.ProcessEnv = {}) {
  const program = ['-Urn', process.execPath, ...args];
  return spawnSync('unshare', program, { encoding: 'utf8', env: { ...process.env, ...env } });
}

describeWhere(needs.namespaces)('where the loopback interface is down', () => {
  let script: string;
  beforeAll(() => {
    script = path.join(temporaryFolder(), 'train.js');
    writeFileSync(script, TRAINING);
  });
  afterAll(cleanUpRanks);

  test.each(['127.0.0.1', '::1', '192.0.2.1'])('rank 0 says so at once, with the master at %s', masterAddr => {
    const place = { RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: masterAddr, GRADRING_ENCRYPTION: 'off' };
    expect(runInNewNetwork([script], place).stdout).toBe(`ERR_LOOPBACK_DOWN: ${WORDS}\n`);
  });

  test('so does another rank', () => {
    expect(runInNewNetwork([script], { RANK: '1', WORLD_SIZE: '2' }).stdout).toBe(`ERR_LOOPBACK_DOWN: ${WORDS}\n`);
  });

  test.each([[['-n', '2']], [['-n', '1', '--max-restarts', '1']]])('so does the launcher with %j', options => {
    const { status, stdout, stderr } = runInNewNetwork([CLI, 'run', ...options, script]);
    expect({ status, stdout, stderr }).toEqual({
      status: 1,
      stdout: '',
      stderr: `gradring: ERR_LOOPBACK_DOWN: ${WORDS}\n`,
    });
  });

  test('a ring of one needs no loopback', () => {
    expect(runInNewNetwork([CLI, 'run', '-n', '1', script]).stdout).toBe('[0] done\n');
  });

  test('the doctor says so, whatever the master', () => {
    const network = JSON.stringify(path.join(DIST, 'doctor/network.js'));
    const program = `
      const choice = { masterAddr: '192.0.2.1', masterPort: 29500 };
      require(${network}).networkFinding(() => choice).then(finding => console.log(JSON.stringify(finding)));`;
    expect(JSON.parse(runInNewNetwork(['-e', program]).stdout)).toMatchObject({ verdict: 'problem', words: WORDS });
  });

  test('a master to which no route leads is told', () => {
    const identity = JSON.stringify(path.join(DIST, 'rendezvous/host-identity.js'));
    const program = `
      const choice = { masterAddr: '192.0.2.1', masterPort: 29500 };
      require(${identity}).placeForPeers(choice).catch(({ message }) => console.log(message));`;
    expect(runInNewNetwork(['-e', program]).stdout).toBe(
      "MASTER_ADDR is '192.0.2.1', to which no route leads from this host: connect ENETUNREACH 192.0.2.1:29500.\n",
    );
  });
});
