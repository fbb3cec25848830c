import path from 'node:path';
import { variablesFinding } from '../../src/doctor/place';
import { unknownVariableWarning } from '../../src/environment/variables';
import { launch, launchPlan } from '../../src/launcher/launch';
import { planLaunch } from '../../src/launcher/launch-options';
import { replaceSsh, RUN_HERE } from '../launcher/fake-ssh';
import { Capture, cleanUp, script } from '../launcher/support';
import { cleanUpRanks, startRanks } from '../support/rings';

const WARNING = 'GRADRING_TIMEOUT (did you mean GRADRING_TIMEOUT_MS?) is set, but is no variable of gradring.';
const MISSPELT = { GRADRING_TIMEOUT: '1000' };
const CONNECT = `
  const { connect } = require(${JSON.stringify(path.join(__dirname, '../../dist/core'))});
  connect().then(ring => ring.close());`;

afterEach(cleanUpRanks);
afterEach(cleanUp);

const POD = {
  KUBERNETES_SERVICE_HOST: '10.0.0.1',
  GRADRING_SERVICE_HOST: '10.0.0.2',
  GRADRING_SERVICE_PORT_HTTP: '80',
  GRADRING_PORT: 'tcp://10.0.0.2:80',
  GRADRING_RANKS_PORT_80_TCP_ADDR: '10.0.0.2',
};

test.each<[NodeJS.ProcessEnv, string | undefined]>([
  [{ GRADRING_TIMEOUT_MS: '1', GRADRING_COLUMNS: '80', HOME: '/', GRADRINGS: 'x', GRADRING_FOO: '' }, undefined],
  [MISSPELT, WARNING],
  [{ GRADRING_ENCRYPT1ON: 'off' }, 'GRADRING_ENCRYPT1ON (did you mean GRADRING_ENCRYPTION?) is set, but'],
  [{ GRADRING_COFFEE: '2' }, 'GRADRING_COFFEE is set, but is no variable of gradring.'],
  [{ ...MISSPELT, GRADRING_COFFEE: '2' }, 'GRADRING_COFFEE are set, but are no variables of gradring.'],
  [POD, undefined],
  [{ ...POD, KUBERNETES_SERVICE_HOST: undefined }, 'GRADRING_SERVICE_HOST, '],
])('of %j the warning is %s', (env, words) => {
  const warning = unknownVariableWarning(env);
  if (words === undefined) expect(warning).toBeUndefined();
  else expect(warning).toContain(words);
});

test('the doctor tells a misspelt variable', () => {
  expect(variablesFinding({ HOME: '/' })).toBeUndefined();
  expect(variablesFinding(MISSPELT)).toMatchObject({
    ...{ verdict: 'warning', words: WARNING.slice(0, -1), details: { unknown: ['GRADRING_TIMEOUT'] } },
  });
});

test('the launcher tells it once, and its ranks do not', async () => {
  const [stdout, stderr] = [new Capture(), new Capture()];
  const options = { script: script(CONNECT), env: MISSPELT, stdout, stderr };
  expect(await launch({ ...options, ranks: 2 })).toMatchObject({ exitCode: 0 });
  expect(stderr.text).toBe(`gradring: ${WARNING}\n`);

  replaceSsh(RUN_HERE);
  const plan = planLaunch({ ...options, hosts: [{ host: 'h', ranks: 2 }] });
  expect(await launchPlan(plan)).toMatchObject({ exitCode: 0 });
  expect(stderr.lines.filter(line => line.includes('GRADRING_TIMEOUT'))).toEqual(Array(2).fill(`gradring: ${WARNING}`));
});

test('without a launcher rank 0 tells it, once', async () => {
  const program = `for (let i = 0; i < 2; i++) await Communicator.connect().then(ring => ring.close());`;
  const ranks = await startRanks(2, program, MISSPELT);
  const [first, second] = await Promise.all(ranks.map(({ ended }) => ended));
  expect(first!.stderr.match(/GradringWarning: .*/g)).toEqual([`GradringWarning: ${WARNING}`]);
  expect([first!.exitCode, second]).toMatchObject([0, { exitCode: 0, stderr: '' }]);
});

test('a rank tells it if its variables are wrong, which may be the reason', async () => {
  const env = { WORLD_SIZE: '', GRADRING_RUN_TOKE: 'x' };
  const [rank] = await startRanks(1, `await Communicator.connect().catch(({ code }) => say(code));`, env);
  const { stdout, stderr } = await rank!.ended;
  expect(stdout).toBe('ERR_INVALID_ENVIRONMENT\n');
  expect(stderr).toContain('GRADRING_RUN_TOKE (did you mean GRADRING_RUN_TOKEN?)');
});
