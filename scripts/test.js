#!/usr/bin/env node
// `npm test`: installs and builds what is missing, then every check. `npm test -- FILTER` passes its words to jest.
const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { bootstrap } = require('./bootstrap');

bootstrap();
const root = path.join(__dirname, '..');
const bin = script => path.join(root, 'node_modules', script);

const checks = [
  ['Lint and layers', bin('eslint/bin/eslint.js'), ['.']],
  ['Format', bin('prettier/bin/prettier.cjs'), ['--check', '--log-level=warn', '.']],
  ['Types of src', bin('typescript/bin/tsc'), ['--noEmit', '-p', 'tsconfig.json']],
  ['Types of test', bin('typescript/bin/tsc'), ['--noEmit', '-p', 'test/tsconfig.json']],
  ['Generated code is that of schemas/', path.join(__dirname, 'schemas.js'), ['--check']],
  ['Tests', bin('jest/bin/jest.js'), process.argv.slice(2)],
];
for (const [title, script, args] of checks) {
  console.error(`\n— ${title}`);
  const { status } = spawnSync(process.execPath, [script, ...args], { cwd: root, stdio: 'inherit' });
  if (status !== 0) {
    console.error(`\n${title}: failed.`);
    process.exit(status ?? 1);
  }
}
