#!/usr/bin/env node
// `npm run test:slow`: installs and builds what is missing, then the tests that take minutes. Its arguments go to jest.
const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { bootstrap } = require('./bootstrap');

bootstrap();
const root = path.join(__dirname, '..');
const jest = path.join(root, 'node_modules/jest/bin/jest.js');
const args = [jest, '--config', 'jest.slow.config.js', ...process.argv.slice(2)];
process.exit(spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' }).status ?? 1);
