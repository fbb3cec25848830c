#!/usr/bin/env node
// Builds dist/: the TypeScript with tsc, the WebAssembly modules with the AssemblyScript compiler, and TensorFlow.js's
// wasm backend. `--clean` removes dist/ first.
const { execFileSync } = require('node:child_process');
const { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..');
const run = (script, args) =>
  execFileSync(process.execPath, [path.join(root, 'node_modules', script), ...args], { cwd: root, stdio: 'inherit' });

if (process.argv.includes('--clean')) rmSync(path.join(root, 'dist'), { recursive: true, force: true });
run('typescript/bin/tsc', ['-p', 'tsconfig.json']);
// The modules own no memory: they work on a shared memory of the caller, on which two threads may have an instance
// each. So they must not have static data (--runtime stub, no GC).
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
chmodSync(path.join(root, 'dist/cli.js'), 0o755); // npm does the same when it installs the package
copyWasmBackend();

/**
 * Copies TensorFlow.js's wasm backend, which then runs on whichever TensorFlow.js gradring finds. As a dependency it
 * would bring a second one: it demands a tfjs-core of exactly its own version. gradring works only with SIMD, and this
 * backend uses no threads in Node, so one module of its three is enough.
 */
function copyWasmBackend() {
  const from = path.join(root, 'node_modules/@tensorflow/tfjs-backend-wasm/dist');
  const to = path.join(root, 'dist/tensorflow/wasm-backend');
  mkdirSync(to, { recursive: true });
  copyFileSync(path.join(from, 'tfjs-backend-wasm-simd.wasm'), path.join(to, 'tfjs-backend-wasm-simd.wasm'));
  const parts = readFileSync(path.join(from, 'tf-backend-wasm.node.js'), 'utf8').split("'@tensorflow/tfjs-core'");
  if (parts.length !== 2) throw new Error('tfjs-backend-wasm does not load tfjs-core as it did in 4.22.');
  writeFileSync(path.join(to, 'tf-backend-wasm.node.js'), parts.join("'@tensorflow/tfjs'"));
}
