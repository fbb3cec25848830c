import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { NODE_LINES, nodeLinesInWords, nodeVerdict, requireNode } from '../src/node-version';
import { readManifest } from '../src/version';
import { ROOT } from './launcher/support';
import { readPage } from './support/doc-pages';

test.each([
  ['16.20.2', 'problem'],
  ['18.20.8', 'problem'],
  ['20.14.0', 'problem'],
  ['20.15.0', 'ok'],
  ['20.20.2', 'ok'],
  ['22.1.0', 'problem'],
  ['22.2.0', 'ok'],
  ['22.23.3', 'ok'],
  ['23.11.1', 'warning'],
  ['24.0.0', 'ok'],
  ['25.9.0', 'warning'],
  ['26.10.0', 'ok'],
  ['27.0.0', 'warning'],
])('Node %s: %s', (version, verdict) => {
  expect(nodeVerdict(version)).toBe(verdict);
  if (verdict === 'problem') expect(() => requireNode(version)).toThrow(`this is ${version}.`);
  else requireNode(version);
});

test('package.json and the README name the same versions', () => {
  const ranges = NODE_LINES.map(([major, minor]) => `^${major}.${minor}`);
  expect(readManifest().engines.node).toBe(ranges.join(' || '));
  const page = readPage('README.md').replaceAll('\n', ' ');
  const lines = NODE_LINES.map(([major]) => major);
  expect(page).toContain(`Node ${lines.slice(0, -1).join(', ')} or ${lines.at(-1)}`);
  expect(nodeLinesInWords()).toBe('20 (from 20.15), 22 (from 22.2), 24 and 26');
  expect(page).toContain(`with Node ${nodeLinesInWords()},`);
});

describe('another Node is refused at once', () => {
  const onOldNode = (program: string) => {
    const old = `Object.defineProperty(process.versions, 'node', { value: '18.20.8' });`;
    const env = { ...process.env, RANK: '1', WORLD_SIZE: '2', MASTER_PORT: '1' };
    return spawnSync(process.execPath, ['-e', old + program], { encoding: 'utf8', env });
  };
  const dist = (file: string) => JSON.stringify(path.join(ROOT, 'dist', file));
  const words = /gradring works with Node 20 .* and 26; this is 18\.20\.8\. Install a newer one/;

  test('by a command, whichever it is', () => {
    const { status, stderr, stdout } = onOldNode(`require(${dist('cli.js')}).main(['run', '-n', '2', 'train.js']);`);
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr).toMatch(/^gradring: ERR_NODE_VERSION: /);
    expect(stderr).toMatch(words);
  });

  test.each([
    ['connect()', 'index.js'],
    [`launch({ ranks: 2, script: 'train.js' })`, 'launcher/launch.js'],
  ])('by %s', (call, file) => {
    const { stdout } = onOldNode(`require(${dist(file)}).${call}.catch(e => console.log(e.code, e.message));`);
    expect(stdout).toMatch(/^ERR_NODE_VERSION /);
    expect(stdout).toMatch(words);
  });
});
