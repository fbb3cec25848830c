#!/usr/bin/env node
// Builds dist/: the TypeScript with tsc, the WebAssembly modules with the AssemblyScript compiler. `--clean` removes
// dist/ first.
const { execFileSync } = require('node:child_process');
const { chmodSync, rmSync } = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..');
const run = (script, args) =>
  execFileSync(process.execPath, [path.join(root, 'node_modules', script), ...args], { cwd: root, stdio: 'inherit' });

if (process.argv.includes('--clean')) rmSync(path.join(root, 'dist'), { recursive: true, force: true });
run('typescript/bin/tsc', ['-p', 'tsconfig.json']);
// They own no memory: they work on the shared one that they are given, so they may hold no static data (--runtime stub,
// no GC) and two threads may run one instance each over the same memory.
for (const [source, module] of [
  ['src/kernels/assembly/index.ts', 'dist/kernels/kernels.wasm'],
  ['src/bench/assembly/stream-floor.ts', 'dist/bench/stream-floor.wasm'],
]) {
  run('assemblyscript/bin/asc.js', [
    ...[source, '--outFile', module],
    ...['--runtime', 'stub', '--noAssert', '--optimizeLevel', '3', '--shrinkLevel', '0', '--converge'],
    ...['--enable', 'simd', '--enable', 'threads', '--enable', 'bulk-memory'],
    ...['--importMemory', '--sharedMemory', '--initialMemory', '1', '--maximumMemory', '65536'],
  ]);
}
chmodSync(path.join(root, 'dist/cli.js'), 0o755); // npm does so for those who install the package
