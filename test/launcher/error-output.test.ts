import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ErrorOutput } from '../../src/launcher/error-output';
import { launch } from '../../src/launcher/launch';
import { LineSplitter } from '../../src/launcher/line-splitter';
import { casesOf } from '../support/cases';
import { Capture, cleanUp, ROOT, temporaryFolder } from './support';

afterEach(cleanUp);

interface Shown {
  readonly isError: boolean;
  /** With `DIR` for the program's folder, and N for a number of frames, which depends on the version of Node. */
  readonly text: string;
  /** All that the program wrote to stderr. */
  readonly stderr: string;
}

/** Runs a program of these files, of which the first is started, and returns what is shown if it was a rank. */
function shownOf(files: Readonly<Record<string, string>>, env: NodeJS.ProcessEnv = {}): Shown {
  const folder = temporaryFolder();
  for (const [name, source] of Object.entries(files)) writeFileSync(path.join(folder, name), source);
  const file = path.join(folder, 'stderr');
  const fd = openSync(file, 'w'); // of what does not fit into a pipe Node would lose a part
  const variables = { ...process.env, ...env };
  spawnSync(process.execPath, [path.join(folder, Object.keys(files)[0]!)], {
    env: variables,
    stdio: ['ignore', 'ignore', fd],
  });
  closeSync(fd);
  const stderr = readFileSync(file);
  const output = new ErrorOutput();
  const splitter = new LineSplitter();
  for (let at = 0; at < stderr.length; at += 65_536) output.add(splitter.push(stderr.subarray(at, at + 65_536)));
  output.add(splitter.end());
  const { isError, lines } = output.lastWords;
  const text = lines
    .join('\n')
    .replaceAll(folder, 'DIR')
    .replace(/\(\d+ (?=(more )?frames? left)/g, '(N ');
  return { isError, text, stderr: stderr.toString() };
}

const lines = (...each: string[]): string => each.join('\n');

describe('an uncaught error: its message, the frames in own files, and how many others there are', () => {
  test('thrown', () => {
    const { isError, text, stderr } = shownOf({ 'a.js': `function f() {\n  throw new TypeError('no');\n}\nf();` });
    expect(isError).toBe(true);
    expect(text).toBe(
      lines(
        'TypeError: no',
        '    at f (DIR/a.js:2:9)',
        '    at Object.<anonymous> (DIR/a.js:4:1)',
        '    (N more frames left out)',
      ),
    );
    expect(stderr.match(/^ {4}at .*node:/gm)!.length).toBeGreaterThan(2); // Else this shows nothing.
  });

  test('the number of frames left out', () => {
    const { text } = shownOf({
      'a.js': `const error = new Error('x');
        error.stack = 'Error: x\\n    at f (node:fs:1:2)\\n    at g (/x/node_modules/y/z.js:3:4)\\n    at new Promise (<anonymous>)';
        throw error;`,
    });
    expect(text).toBe(
      lines(
        ...['Error: x', '    at DIR/a.js:3', '            throw error;', '            ^'],
        '    (N frames left out: none is in a file of yours)',
      ),
    );
  });

  test('rejected, with a code and other properties', () => {
    const source = `async function work() {
        await null;
        throw Object.assign(new RangeError('late'), { code: 'E_LATE', details: { rank: 2, nested: { a: [1, { b: 3 }] } } });
      }
      void (async () => {
        await work();
      })();`;
    expect(shownOf({ 'a.js': source }).text).toBe(
      lines('RangeError [E_LATE]: late', '    at work (DIR/a.js:3:29)', '    at async DIR/a.js:6:9'),
    );
  });

  test('of gradring, whose own frames are left out', () => {
    const source = `const { launch } = require(${JSON.stringify(path.join(ROOT, 'dist/index.js'))});
      async function main() {
        await launch({ ranks: 0, script: 'x.js' });
      }
      main();`;
    expect(shownOf({ 'a.js': source }).text).toBe(
      lines(
        'GradringError [ERR_INVALID_ARGUMENT]: ranks is 0; it must be a whole number from 1 to 65535.',
        '    at main (DIR/a.js:3:15)',
        '    at Object.<anonymous> (DIR/a.js:5:7)',
        '    (N more frames left out)',
      ),
    );
  });

  test('with a message of several lines', () => {
    const source = `throw new Error('first\\nsecond\\n\\nafter a blank {\\n  at the end');`;
    expect(shownOf({ 'a.js': source }).text).toBe(
      lines(
        ...['Error: first', 'second', '', 'after a blank {', '  at the end'],
        ...['    at Object.<anonymous> (DIR/a.js:1:7)', '    (N more frames left out)'],
      ),
    );
    const long = shownOf({ 'a.js': `throw new Error(Array.from({ length: 30 }, (_, i) => 'line ' + i).join('\\n'));` });
    expect(long.text).toMatch(/^Error: line 0\nline 1\n(line \d\n){7}line 9\n\(20 more lines\)\n {4}at Object/);
  });

  test('with causes, which have codes and causes themselves', () => {
    const source = `
      function low() { throw Object.assign(new Error('low\\nof two lines'), { code: 'E_LOW' }); }
      function high() { try { low(); } catch (cause) { throw new Error('high', { cause }); } }
      try { high(); } catch (cause) {
        throw Object.assign(new Error('top', { cause }), { code: 'E_TOP', more: { code: 'E_OTHER' } });
      }`;
    expect(shownOf({ 'a.js': source }).text).toBe(
      lines(
        'Error [E_TOP]: top',
        '    at Object.<anonymous> (DIR/a.js:5:29)',
        '    (N more frames left out)',
        'caused by: Error: high',
        '    at high (DIR/a.js:3:62)',
        '    at Object.<anonymous> (DIR/a.js:4:13)',
        '    (N more frames left out)',
        'caused by: Error [E_LOW]: low',
        'of two lines',
        '    at low (DIR/a.js:2:44)',
        '    at high (DIR/a.js:3:31)',
        '    at Object.<anonymous> (DIR/a.js:4:13)',
        '    (N more frames left out)',
      ),
    );
  });

  test.each([
    [`'a text'`, `'a text'`],
    [`{ a: 1 }`, `{ a: 1 }`],
    [`undefined`, `undefined`],
    [`Object.assign(new Error('bare'), { stack: undefined })`, 'Error: bare'],
  ])('with the cause %s', (cause, words) => {
    const { text } = shownOf({ 'a.js': `throw Object.assign(new Error('x', { cause: ${cause} }), { code: 'E_X' });` });
    expect(text).toMatch(/^Error \[E_X\]: x\n.*\(DIR\/a.js:1:21\)\n.*left out\)\n/);
    expect(text.split('\n').at(-1)).toBe(`caused by: ${words}`);
  });

  test('an AggregateError, with and without a message of its own', () => {
    const source = `
      function fail() {
        const [first, second] = [new Error('one', { cause: new Error('its cause') }), new TypeError('two\\nlines')];
        throw new AggregateError([first, second, 'three'], 'all failed');
      }
      fail();`;
    expect(shownOf({ 'a.js': source }).text.replace(/(\n {4}.*)+/g, '')).toBe(
      lines(
        ...['AggregateError: all failed', 'error 1: Error: one', 'caused by: Error: its cause'],
        ...['error 2: TypeError: two', 'lines', `error 3: 'three'`],
      ),
    );
    const { text } = shownOf({
      'a.js': `const reject = async i => { throw Object.assign(new Error('no ' + i), { code: 'E' + i }); };
        Promise.any(Array.from({ length: 9 }, (_, i) => reject(i)));`,
    });
    expect(text.replace(/(\n {4}.*)+/g, '')).toBe(
      lines(
        'AggregateError: All promises were rejected',
        ...[0, 1, 2, 3, 4].map(i => `error ${i + 1}: Error [E${i}]: no ${i}`),
        '(4 more errors)',
      ),
    );
  });

  test('a SyntaxError, whose place no frame has', () => {
    const place = ['    at DIR/a.js:2', '    const = 5;', '          ^'];
    const wrong = 'const x = 1;\nconst = 5;\n';
    expect(shownOf({ 'a.js': wrong }).text).toBe(
      lines("SyntaxError: Unexpected token '='", ...place, '    (N frames left out: none is in a file of yours)'),
    );
    expect(shownOf({ 'b.js': 'require("./a.js")', 'a.js': wrong }).text).toBe(
      lines(
        ...["SyntaxError: Unexpected token '='", ...place],
        ...['    at Object.<anonymous> (DIR/b.js:1:1)', '    (N more frames left out)'],
      ),
    );
    expect(shownOf({ 'a.mjs': wrong }).text).toContain(
      lines(place[0]!.replace('DIR', 'file://DIR').replace('.js', '.mjs'), place[1]!),
    );
  });

  test('an error of the loader', () => {
    const { text } = shownOf({ 'a.js': 'require("not-there")' });
    expect(text).toBe(
      lines(
        ...["Error [MODULE_NOT_FOUND]: Cannot find module 'not-there'", 'Require stack:', '- DIR/a.js'],
        ...['    at Object.<anonymous> (DIR/a.js:1:1)', '    (N more frames left out)'],
      ),
    );
    expect(shownOf({ 'a.mjs': 'import "not-there";' }).text).toBe(
      lines(
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'not-there' imported from DIR/a.mjs",
        '    (N frames left out: none is in a file of yours)',
      ),
    );
    expect(shownOf({ 'a.mjs': 'import { no } from "./b.mjs";', 'b.mjs': '' }).text).toMatch(
      /^SyntaxError: .*'no'\n {4}at file:\/\/DIR\/a\.mjs:1\n {4}import \{ no \}.*\n {13}\^\^\n {4}\(N frames/,
    );
  });

  test('what is no error', () => {
    expect(shownOf({ 'a.js': `throw 'just a text';` }).text).toBe(
      lines('just a text', '    at DIR/a.js:1', `    throw 'just a text';`, '    ^'),
    );
    expect(shownOf({ 'a.js': `Promise.reject('some words')` }).text).toContain('reason "some words"');
  });

  test('in colours, which are stripped', () => {
    const files = { 'a.js': `throw Object.assign(new Error('x', { cause: new Error('y') }), { code: 'E_X' });` };
    const coloured = shownOf(files, { FORCE_COLOR: '1' });
    expect(coloured.stderr).toContain('\x1b[');
    expect(coloured.text).toBe(shownOf(files).text);
  });

  test('in a line of code that is very long', () => {
    const source = `/* ${'x'.repeat(300_000)} */ throw new Error('far right');`;
    expect(shownOf({ 'a.js': source }).text).toMatch(
      /^Error: far right\n {4}at Object.<anonymous> \(DIR\/a.js:1:\d+\)\n/,
    );
  });
});

describe('which error', () => {
  test('the last uncaught one, whatever else was printed before and after it', () => {
    const source = `
      const { spawnSync } = require('node:child_process');
      const warn = () => console.error(new Error('a printed error'));
      warn();
      process.on('exit', () => { for (let i = 0; i < 20; i++) console.error('at exit'); warn(); });
      spawnSync(process.execPath, ['-e', 'throw new Error("of a child")'], { stdio: 'inherit' });
      throw new Error('the last one');`;
    const { text, stderr } = shownOf({ 'a.js': source });
    expect(stderr).toContain('Error: of a child');
    expect(text).toMatch(/^Error: the last one\n {4}at Object.<anonymous> \(DIR\/a.js:7:13\)\n {4}\(N more.*$/);
  });

  test('one that the program printed itself, with what it said then', () => {
    const source = `
      function load() { throw new Error('no such data'); }
      console.error('some', 'log');
      try { load(); } catch (error) { console.error('loading failed:', error); }
      console.error('I give up.');
      process.exitCode = 3;`;
    expect(shownOf({ 'a.js': source }).text).toBe(
      lines(
        'loading failed: Error: no such data',
        '    at load (DIR/a.js:2:31)',
        '    at Object.<anonymous> (DIR/a.js:4:13)',
        '    (N more frames left out)',
        'I give up.',
      ),
    );
  });

  test('a printed one with a cause and a message of several lines, or a SyntaxError', () => {
    const print = `catch (error) { console.error(error); process.exit(3); }`;
    const cause = shownOf({ 'a.js': `try { throw new Error('a\\nb', { cause: new Error('c') }); } ${print}` });
    expect(cause.text.replace(/\n {4}.*/g, '')).toBe(lines('Error: a', 'b', 'caused by: Error: c'));
    const syntax = shownOf({ 'a.js': `try { require('./b.js'); } ${print}`, 'b.js': 'let let = 5;' });
    expect(syntax.text).toMatch(/^SyntaxError: .*\n {4}at DIR\/b\.js:1\n {4}let let = 5;\n/);
  });

  test('none that is old: then the last ten lines', () => {
    const source = `
      console.error(new Error('long ago'));
      for (let i = 0; i < 30; i++) console.error('\\x1b[31mline', i + '\\x1b[39m\\n');
      process.exitCode = 1;`;
    const { isError, text } = shownOf({ 'a.js': source });
    expect(isError).toBe(false);
    expect(text).toBe(lines(...Array.from({ length: 10 }, (_, i) => `line ${i + 20}`)));
  });

  test('none in output without one, nor in a warning of Node', () => {
    expect(shownOf({ 'a.js': `console.error('a\\n\\nb'); process.exitCode = 1;` })).toMatchObject({
      isError: false,
      text: 'a\nb',
    });
    const warning = shownOf({ 'a.js': `process.emitWarning('careful');` }, { NODE_OPTIONS: '--trace-warnings' });
    expect(warning.isError).toBe(false);
    expect(warning.text).toMatch(/\(node:\d+\) Warning: careful\n {4}at /);
    expect(shownOf({ 'a.js': '' })).toMatchObject({ isError: false, text: '' });
  });
});

test('of a huge output little is kept, and its last error is found', () => {
  const source = `
    const { writeSync } = require('node:fs');
    const text = ('x'.repeat(99) + '\\n').repeat(10_000) + '\\n'.repeat(10_000) + 'y'.repeat(3_000_000) + '\\n';
    for (let at = 0; at < text.length;) at += writeSync(2, text.slice(at, at + 4096));
    throw new Error('at last');`;
  expect(shownOf({ 'a.js': source }).text).toMatch(/^Error: at last\n {4}at Object.<anonymous> \(DIR\/a.js:5:11\)\n/);
  const output = new ErrorOutput();
  for (let i = 0; i < 1000; i++) output.add(Array.from({ length: 1000 }, () => ''));
  output.add(Array.from({ length: 100 }, () => 'z'.repeat(60_000)));
  const { lines: kept } = output as unknown as { lines: string[] };
  expect(kept.length).toBeLessThan(20);
  expect(output.lastWords.lines).toHaveLength(10);
});

const TFJS = JSON.stringify(require.resolve('@tensorflow/tfjs'));
const FIT = `
  const tf = require(${TFJS});
  async function main() {
    const model = tf.sequential({ layers: [tf.layers.dense({ inputShape: [2], units: 1 })] });
    const loss = (truth, prediction) => {
      if (process.env.WRONG === 'loss') throw new Error('a wrong loss');
      return tf.losses.meanSquaredError(truth, prediction);
    };
    model.compile({ optimizer: 'sgd', loss });
    const onBatchEnd = () => {
      if (process.env.WRONG === 'callback') throw new Error('a wrong callback');
    };
    const x = tf.ones([4, process.env.WRONG === 'shape' ? 3 : 2]);
    await model.fit(x, tf.ones([4, 1]), { epochs: 1, verbose: 0, callbacks: { onBatchEnd } });
  }
  main();`;

const WRONGS = casesOf(
  [['loss', 'at loss (DIR/a.js:6:47)']],
  [['callback', 'at CustomCallback.onBatchEnd [as batchEnd] (DIR/a.js:11:51)']],
);

test.each(WRONGS)('within model.fit, where most frames are of TensorFlow.js: a wrong %s', (wrong, frame) => {
  const text = `Error: a wrong ${wrong}\n    ${frame}\n    (N more frames left out)`;
  expect(shownOf({ 'a.js': FIT }, { WRONG: wrong }).text).toBe(text);
});

test('a failed launch ends with the error of the rank that failed, even if all its frames are of TensorFlow.js', async () => {
  const script = path.join(temporaryFolder(), 'fit.js');
  writeFileSync(script, FIT);
  const [stdout, stderr] = [new Capture(), new Capture()];
  const { exitCode } = await launch({ ranks: 1, script, env: { WRONG: 'shape' }, stdout, stderr });
  expect(exitCode).toBe(1);
  const summary = stderr.lines.findIndex(line => line.startsWith('gradring: '));
  expect(stderr.lines.slice(summary)).toEqual([
    expect.stringMatching(/^gradring: rank 0 .* failed with exit code 1 .* root cause\.$/),
    'gradring: the error of rank 0:',
    expect.stringMatching(/^ {4}ValueError: .*expected a batch of elements where each example has shape \[2\]/),
    '        (10 frames left out: none is in a file of yours)',
  ]);
});
