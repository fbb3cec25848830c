#!/usr/bin/env node
// `npm run test:slow`: installs and builds what is missing, then the tests that take minutes. Its arguments go to jest.
const { spawnSync } = require('node:child_process');
const { mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const MORE_CASES = require('../test/support/more-cases');
const { bootstrap } = require('./bootstrap');

/**
 * Each of these runs alone: they have network interfaces, ports or services of the machine for themselves, or they
 * change what is installed here. Of all others two run at the same time.
 */
const ALONE = [
  ...['backends', 'bench-netlab', 'crowds', 'cut-link', 'encrypted-lab', 'engines', 'kubernetes'],
  ...['netlab', 'netlab-guard', 'networks', 'speedup-lab', 'ssh', 'strangers'],
].join('|');

bootstrap();
const root = path.join(__dirname, '..');
const jest = path.join(root, 'node_modules/jest/bin/jest.js');
const common = [jest, '--config', 'jest.slow.config.js', '--passWithNoTests', ...process.argv.slice(2)];
const cache = mkdtempSync(path.join(tmpdir(), 'gradring-test-cache-'));
const env = { ...process.env, TEST_CACHE: cache }; // see test/slow/support/installed.ts
process.on('SIGINT', () => undefined); // Ctrl-C ends jest, and then this
let exitCode = 0;
for (const [workers, ...tests] of [
  ['--maxWorkers=2', `**/slow/!(${ALONE}).test.ts`, ...MORE_CASES],
  ['--maxWorkers=1', `**/slow/@(${ALONE}).test.ts`],
]) {
  const args = [...common, workers, ...tests.map(test => `--testMatch=${test}`)];
  const { status, signal } = spawnSync(process.execPath, args, { cwd: root, env, stdio: 'inherit' });
  exitCode = Math.max(exitCode, status ?? 1);
  if (signal !== null) break;
}
rmSync(cache, { recursive: true, force: true });
process.exit(exitCode);
