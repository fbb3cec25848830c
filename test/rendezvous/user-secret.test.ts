import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { resolveConnectOptions } from '../../src/rendezvous/connect-options';
import { secretFile } from '../../src/rendezvous/user-secret';
import { SLURM } from '../environment/schedulers';

let home: string;
const env = (more: NodeJS.ProcessEnv = {}) => ({ ...SLURM, HOME: home, ...more });
const tokenOf = (more: NodeJS.ProcessEnv) => resolveConnectOptions({}, env(more)).runToken;
beforeEach(() => (home = mkdtempSync(path.join(tmpdir(), 'gradring-home-'))));
afterEach(() => rmSync(home, { recursive: true }));

/** Ranks of one host: they meet at loopback. */
const ONE_HOST = { SLURM_STEP_NUM_NODES: '1' };

test('ranks of a scheduler make the same token, another in each run, from a file that only the user can read', () => {
  const token = tokenOf({});
  expect(token).toMatch(/^[0-9a-f]{64}$/);
  expect(tokenOf({ SLURM_PROCID: '1' })).toBe(token);
  expect(tokenOf(ONE_HOST)).toBe(token);
  expect(tokenOf({ SLURM_STEP_ID: '1' })).not.toBe(token);
  const file = path.join(home, '.config/gradring/secret');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(statSync(path.dirname(file)).mode & 0o777).toBe(0o700);
  expect(token).not.toBe(readFileSync(file, 'utf8').trim());
  expect(tokenOf({ XDG_CONFIG_HOME: path.join(home, 'config') })).not.toBe(token);
});

test.each<[string, NodeJS.ProcessEnv, string | undefined]>([
  ['it is given', { GRADRING_RUN_TOKEN: '0123456789abcdef'.repeat(4) }, '0123456789abcdef'.repeat(4)],
  ['encryption is off', { GRADRING_ENCRYPTION: 'off' }, undefined],
  ['no scheduler started the ranks', { RANK: '1', WORLD_SIZE: '2', MASTER_ADDR: '127.0.0.1' }, undefined],
])('they make none if %s', (_, more, token) => {
  expect(tokenOf(more)).toBe(token);
  expect(() => statSync(path.join(home, '.config'))).toThrow(/ENOENT/);
});

test('a look at the secret makes none, and tells if it is damaged', () => {
  expect(resolveConnectOptions({}, env(), false).runToken).toBeUndefined();
  expect(() => statSync(path.join(home, '.config'))).toThrow(/ENOENT/);
  const token = tokenOf({});
  expect(resolveConnectOptions({}, env(), false).runToken).toBe(token);
  chmodSync(secretFile(env()), 0o640);
  expect(() => resolveConnectOptions({}, env(), false)).toThrow(/others may read it/);
});

describe.each<[string, () => NodeJS.ProcessEnv, RegExp]>([
  ['others may read the secret', () => secret('ab'.repeat(32), 0o640), /others may read it: chmod 600 \//],
  ['the secret is damaged', () => secret('abc', 0o600), /secret does not hold 64 hexadecimal digits: remove it/],
  ['HOME is a file', () => ({ HOME: __filename }), /ENOTDIR/],
  ['HOME does not exist', () => ({ HOME: path.join(home, 'no') }), /ENOENT/],
  // There the system says of any new folder that its parent is missing.
  ['HOME is in /proc', () => ({ HOME: '/proc' }), /ENOENT/],
  ['a folder is not absolute', () => ({ XDG_CONFIG_HOME: 'config' }), /'config' is no absolute path: set HOME/],
])('if %s', (_, prepare, message) => {
  test('ranks of several hosts say so, and ranks of one host need no token', () => {
    const more = prepare();
    expect(() => tokenOf(more)).toThrow(message);
    expect(() => tokenOf(more)).toThrow(
      /the same run token\. .* GRADRING_RUN_TOKEN.*GRADRING_ENCRYPTION=off needs no token/,
    );
    expect(tokenOf({ ...more, ...ONE_HOST })).toBeUndefined();
    expect(() => tokenOf({ ...more, ...ONE_HOST, GRADRING_ENCRYPTION: 'on' })).toThrow(message);
  });
});

test('without a home directory an error says so, and nothing is written to the working directory', () => {
  const library = JSON.stringify(path.join(__dirname, '../../dist/rendezvous/connect-options.js'));
  const program = `try { require(${library}).resolveConnectOptions() } catch (error) { console.log(error.code, error.message) }`;
  for (const more of [{ HOME: '' }, {}]) {
    const options = {
      cwd: home,
      encoding: 'utf8',
      env: { ...SLURM, ...more },
      uid: process.getuid?.() === 0 ? 54_321 : undefined,
    };
    chmodSync(home, 0o777);
    const { stdout } = spawnSync(process.execPath, ['-e', program], options as object) as unknown as { stdout: string };
    expect(stdout).toMatch(/^ERR_INVALID_ENVIRONMENT .* The user's secret cannot be used: /);
  }
});

test('pods need a token, because they have no home directory in common', () => {
  const pod = { JOB_COMPLETION_INDEX: '1', WORLD_SIZE: '2', MASTER_ADDR: 'pod-0', HOME: home };
  expect(() => resolveConnectOptions({}, pod)).toThrow(/MASTER_ADDR is 'pod-0', .* GRADRING_RUN_TOKEN/);
  expect(resolveConnectOptions({}, { ...pod, GRADRING_ENCRYPTION: 'off' }).runToken).toBeUndefined();
  expect(resolveConnectOptions({ encryption: 'off' }, pod).runToken).toBeUndefined();
  expect(resolveConnectOptions({}, { ...pod, WORLD_SIZE: '1' }).runToken).toBeUndefined();
});

/** The secret as it is now. */
function secret(text: string, mode: number): NodeJS.ProcessEnv {
  tokenOf({});
  writeFileSync(secretFile(env()), text);
  chmodSync(secretFile(env()), mode);
  return {};
}
