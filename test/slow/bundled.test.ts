import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const ROOT = path.join(__dirname, '../..');

/** The files that gradring looks for, but does not load as modules. */
const NOT_SEEN_BY_BUNDLERS = /\.wasm$|\/(comm-thread|sheltered-thread|rank-guard|cli|tf-backend-wasm\.node)\.js$/;

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'gradring-bundled-'));
  const isKept = (file: string) => !/\.(map|ts)$|\/\.[^/]+$/.test(file) && !NOT_SEEN_BY_BUNDLERS.test(file);
  cpSync(path.join(ROOT, 'dist'), path.join(folder, 'dist'), { recursive: true, filter: isKept });
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What a call of gradring throws where a bundler has taken only its modules. */
function failureOf(call: string, entry: string): { code: string; message: string } {
  const program = path.join(folder, 'program.js');
  const print = 'error => console.log(JSON.stringify({ code: error.code, message: error.message }))';
  writeFileSync(program, `require('./dist/${entry}').${call}.catch(${print});`);
  const output = execFileSync(process.execPath, [program], { encoding: 'utf8' });
  return JSON.parse(output) as { code: string; message: string };
}

test.each([
  ['connect()', 'comm-thread/comm-thread.js'],
  ['connect()', 'comm-thread/comm-thread.js', 'core'],
  ["loadBackend({ backend: 'cpu' })", 'tensorflow/wasm-backend/tf-backend-wasm.node.js'],
  ['launch({ ranks: 2, script: __filename, stdout: process.stderr })', 'launcher/rank-guard.js'],
  ["launch({ script: __filename, hosts: [{ host: 'localhost', ranks: 2 }] })", 'package.json'],
])('%s in a bundle says that gradring must be left outside', (call, file, entry = 'index') => {
  const { code, message } = failureOf(call, entry);
  expect(code).toBe('ERR_BUNDLED');
  expect(message).toContain(
    `does not find its own file ${path.join(folder, file === 'package.json' ? '' : 'dist', file)}.`,
  );
  expect(message).toContain('esbuild --external:gradring');
});
