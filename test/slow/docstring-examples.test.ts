import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import ts from 'typescript';
import { CODE, CORE, examplesOf } from '../support/docstrings';

const ROOT = path.join(__dirname, '../..');

const EXAMPLES = CODE.flatMap(({ name, docstring }) =>
  examplesOf(docstring).map((source, i) => ({ title: i === 0 ? name : `${name} ${i}`, source })),
);

/** What an example says that it prints: the comments behind its calls of console.log. */
const expectedOf = (source: string): string[] =>
  [...source.matchAll(/^.*console\.log\(.*\/\/ (.*)$/gm)].map(([, expected]) => expected!.trim());

/**
 * The program of each rank. The examples share one process: they run one after the other, and each sees the package's
 * exports, `tf`, a `ring`, and if it names it a `model` that is compiled with a wrapped optimizer, with its data. Those
 * of gradring/core see its exports, and its ring as `core`.
 */
const PROGRAM = `
const gradring = require(${JSON.stringify(path.join(ROOT, 'dist/index.js'))});
const ofCore = require(${JSON.stringify(path.join(ROOT, 'dist/core.js'))});
const { format } = require('node:util');

function trainingFor(source, tf, ring) {
  const model = tf.sequential({ layers: [tf.layers.dense({ inputShape: [8], units: 1 })] });
  model.compile({ optimizer: ring.wrap(tf.train.momentum(0.01, 0.9)), loss: 'meanSquaredError' });
  return { model, x: tf.ones([20, 8]), y: tf.ones([20, 1]), epochs: 2 };
}

async function main() {
  const { tf } = await gradring.loadBackend();
  const ring = await gradring.connect();
  const core = await ofCore.connect();
  const results = [];
  for (const { title, source } of require('./examples.json')) {
    const printed = [];
    const console = { log: (...values) => printed.push(format(...values)), error: () => undefined };
    const entry = title.startsWith('${CORE}') ? { ...ofCore, core } : { ...gradring, tf, ring };
    const training = /\\b(model|x|y|epochs)\\b/.test(source) ? trainingFor(source, tf, ring) : {};
    const names = { ...entry, console, ...training };
    // In a block of its own, so that an example may declare a name that it is given.
    const body = \`return (async () => { { \${source} } })();\`;
    const { RANK } = process.env;
    if (/\\blaunch\\(/.test(source)) delete process.env.RANK; // a rank must not launch others
    try {
      await new Function(...Object.keys(names), body)(...Object.values(names));
    } catch (error) {
      results.push({ title, error: String(error.stack) });
      break; // the other rank has failed, too, or will
    }
    process.env.RANK = RANK;
    results.push({ title, printed });
  }
  if (ring.rank === 0) process.stdout.write(JSON.stringify(results));
  await core.close();
  await ring.close();
}

main();
`;

describe('the examples of the docstrings', () => {
  let folder: string;
  const results = new Map<string, { readonly printed?: string[]; readonly error?: string }>();

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'gradring-docstrings-'));
    const script = ts.transpile; // examples are TypeScript
    const examples = EXAMPLES.map(({ title, source }) => ({
      title,
      source: script(source, { target: ts.ScriptTarget.ES2022 }),
    }));
    writeFileSync(path.join(folder, 'examples.json'), JSON.stringify(examples));
    writeFileSync(path.join(folder, 'examples.js'), PROGRAM);
    writeFileSync(path.join(folder, 'train.js'), ''); // a script to launch
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [path.join(ROOT, 'dist/cli.js'), 'run', '-n', '2', '--no-prefix', 'examples.js'],
      { cwd: folder, env: { ...process.env, GRADRING_BACKEND: 'cpu' } },
    );
    for (const { title, ...result } of JSON.parse(stdout) as { title: string; printed?: string[] }[])
      results.set(title, result);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each(EXAMPLES.map(({ title, source }) => [title, source]))(
    '%s: prints on rank 0 of 2 what it says',
    (title, source) => {
      expect(results.get(title)).toEqual({ printed: expectedOf(source) });
    },
  );
});
