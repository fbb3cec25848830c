#!/usr/bin/env node
// Which files a step of training, an allReduce or a lost peer walks through. Instruments a copy of dist/, so that each
// function says when it is entered, runs it on three ranks, and prints for rank 0 how many files were entered, and how
// often the walk came back to a file that it had left. Build first: npm run build.
//
//   node scripts/walk.js            # the three walks
//   node scripts/walk.js --files    # with the files, in the order in which they were entered first
const { spawnSync } = require('node:child_process');
const { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const ts = require('typescript');

const ROOT = path.join(__dirname, '..');
const WALKS = ['step', 'allReduce', 'lost peer'];

function main() {
  const showsFiles = process.argv.includes('--files');
  const copy = mkdtempSync(path.join(tmpdir(), 'gradring-walk-'));
  try {
    instrument(copy);
    for (const walk of WALKS) {
      const { entered, main, thread } = walkOf(copy, walk);
      const files = [...new Set(entered)];
      const changes = entered.filter((file, i) => i > 0 && file !== entered[i - 1]).length;
      console.log(`${walk}: ${files.length} files (${main} on the main thread, ${thread} on the comm thread), ${entered.length} functions entered, ${changes - files.length + 1} returns to a file`); // prettier-ignore
      if (showsFiles) for (const file of files) console.log(`  ${file}`);
    }
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/** Copies dist/ and what it needs. Each function of the copy calls `entered` first. */
function instrument(copy) {
  cpSync(path.join(ROOT, 'dist'), path.join(copy, 'dist'), { recursive: true });
  for (const name of ['package.json', 'schemas']) cpSync(path.join(ROOT, name), path.join(copy, name), { recursive: true }); // prettier-ignore
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(copy, 'node_modules'));
  const dist = path.join(copy, 'dist');
  for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.js') || name.startsWith('tensorflow/wasm-backend')) continue;
    const file = path.join(dist, name);
    const source = readFileSync(file, 'utf8');
    writeFileSync(file, withCalls(source, name.replace(/\.js$/, '.ts'), path.join(copy, 'record.js')));
  }
  writeFileSync(path.join(copy, 'record.js'), RECORD);
  writeFileSync(path.join(copy, 'program.js'), PROGRAM);
}

/** The source, in which each function begins with a call. */
function withCalls(source, name, record) {
  const file = ts.createSourceFile(name, source, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  const call = `globalThis.entered?.(${JSON.stringify(name)})`;
  const inserts = [];
  const visit = node => {
    const body = bodyOf(node);
    if (body) {
      if (ts.isBlock(body)) inserts.push([startOf(body), `${call};`]);
      else inserts.push([body.getStart(), `(${call}, `], [body.end, ')']);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  const shebang = source.startsWith('#!') ? source.indexOf('\n') + 1 : 0;
  inserts.push([shebang, `require(${JSON.stringify(record)});`]);
  let text = source;
  for (const [at, words] of inserts.sort(([a], [b]) => b - a)) text = text.slice(0, at) + words + text.slice(at);
  return text;
}

/** @param {ts.Node} node */
function bodyOf(node) {
  const hasBody = ts.isArrowFunction(node) || ts.isFunctionExpression(node) || ts.isFunctionDeclaration(node);
  const isOfClass = ts.isMethodDeclaration(node) || ts.isConstructorDeclaration(node) || ts.isAccessor(node);
  return hasBody || isOfClass ? node.body : undefined;
}

/** Where a body may have its first statement: after directives. */
function startOf(body) {
  const [first] = body.statements;
  const isDirective = first && ts.isExpressionStatement(first) && ts.isStringLiteral(first.expression);
  return isDirective ? first.end : body.getStart() + 1;
}

/** Runs a walk on three ranks. What rank 0 has entered comes back, of both threads, one after the other. */
function walkOf(copy, walk) {
  const folder = mkdtempSync(path.join(copy, 'walk-'));
  const run = [path.join(copy, 'dist/cli.js'), 'run', '-n', '3', path.join(copy, 'program.js'), walk];
  const { stderr } = spawnSync(process.execPath, run, { env: { ...process.env, WALK_FOLDER: folder }, encoding: 'utf8' }); // prettier-ignore
  const threads = readdirSync(folder).filter(name => name.endsWith('.json'));
  const read = name => JSON.parse(readFileSync(path.join(folder, name), 'utf8'));
  const recorded = threads.map(read);
  const window = recorded.find(({ window }) => window !== null)?.window;
  if (window === undefined) throw new Error(`Rank 0 has not walked: ${stderr}`);
  const [main, thread] = ['communicator/communicator.ts', 'comm-thread/comm-thread.ts'].map(ownFile =>
    recorded
      .find(({ entered }) => entered.some(([, name]) => name === ownFile))
      .entered.filter(([at]) => at >= window[0] && at <= window[1])
      .map(([, name]) => name),
  );
  return { entered: [...main, ...thread], main: new Set(main).size, thread: new Set(thread).size };
}

/** Loaded by each file of the copy, once in each thread. */
const RECORD = `
const { writeFileSync } = require('node:fs');
const { threadId } = require('node:worker_threads');
const entered = [];
const now = () => Number(process.hrtime.bigint());
if (process.env.RANK === '0' && process.env.WALK_FOLDER) {
  globalThis.entered = name => void entered.push([now(), name]);
  globalThis.walked = null;
  process.on('exit', () =>
    writeFileSync(process.env.WALK_FOLDER + '/' + threadId + '.json', JSON.stringify({ entered, window: globalThis.walked })));
}
`;

/** One walk, after two that warm up. */
const PROGRAM = `
const tf = require('@tensorflow/tfjs');
const { connect, dgc } = require('.');
const now = () => Number(process.hrtime.bigint());

async function main() {
  const ring = await connect({ heartbeatTimeoutMs: 2000 });
  const walk = process.argv[2];
  const variable = tf.variable(tf.ones([64, 64]), true, 'weights');
  const optimizer = ring.wrap(tf.train.momentum(0.1, 0.9), { compression: dgc({ sparsity: 0.99, warmUpEpochs: 0 }) });
  const array = new Float32Array(1024 * 1024);
  const walks = {
    step: () => optimizer.applyGradients({ weights: tf.ones([64, 64]) }),
    allReduce: () => ring.allReduce(array),
    'lost peer': () => (ring.rank === 2 ? process.kill(process.pid, 'SIGKILL') : ring.allReduce(array)),
  };
  const first = walks[walk === 'lost peer' ? 'allReduce' : walk];
  await first();
  await first(); // the first step might have sent everything, so the second one chooses its route again
  await ring.barrier();
  const start = now();
  await Promise.resolve(walks[walk]()).catch(() => {});
  globalThis.walked = [start, now()];
  if (walk !== 'lost peer') await ring.barrier();
  await ring.close();
}

main();
`;

main();
