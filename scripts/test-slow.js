#!/usr/bin/env node
// `npm run test:slow`: installs and builds what is missing, then the tests that take minutes. Its arguments go to jest.
const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { bootstrap } = require('./bootstrap');

/**
 * Two of these run at the same time. All others run alone: they measure, they have network interfaces, ports or
 * services of the machine for themselves, or they change what is installed here.
 */
const BESIDE_OTHERS = [
  ...['chaos', 'chaos-checker', 'conformance-over-tcp', 'digits', 'docs-programs', 'elastic-cli'],
  ...['elastic-loops', 'elastic-losses', 'elastic-training', 'ends', 'examples', 'first-fit', 'folder-lock', 'frozen'],
  ...['fuzz', 'fuzz-harness', 'killed', 'link-tensorflow', 'node-versions', 'other-user', 'pack', 'package-types'],
  ...['processes-over-tcp', 'public-models', 'resized-checkpoint', 'resumed-sparsity', 'soak', 'stopped-ranks'],
  ...['study', 'study-language', 'tensorflow-versions', 'tutorial', 'worker-ends'],
].join('|');

bootstrap();
const root = path.join(__dirname, '..');
const jest = path.join(root, 'node_modules/jest/bin/jest.js');
const common = [jest, '--config', 'jest.slow.config.js', '--passWithNoTests', ...process.argv.slice(2)];
const runs = [
  [`--testMatch=**/slow/@(${BESIDE_OTHERS}).test.ts`, '--maxWorkers=2'],
  [`--testMatch=**/slow/!(${BESIDE_OTHERS}).test.ts`, '--maxWorkers=1'],
].map(args => spawnSync(process.execPath, [...common, ...args], { cwd: root, stdio: 'inherit' }).status ?? 1);
process.exit(Math.max(...runs));
