import path from 'node:path';
import type { OptimizerRow } from '../../src/bench/optimizer/optimizer';
import { gradringHere } from '../launcher/run-here';
import { cleanUp, gradring, Program, ROOT, script } from '../launcher/support';
import { expectBenchRefusal } from '../bench/commands';

afterEach(cleanUp);

const small = ['--parameters', '10001', '--tensors', '3', '--steps', '1', '--json'];

function optimizer(...args: string[]): Program {
  return gradring('bench', 'optimizer', ...args);
}

async function rows(...args: string[]): Promise<OptimizerRow[]> {
  const program = optimizer(...small, ...args);
  expect(await program.exited).toEqual({ exitCode: 0, signal: null });
  expect(program.stderr).toBe('');
  return program.stdout.trimEnd().split('\n').map(line => JSON.parse(line) as OptimizerRow); // prettier-ignore
}

test('--json is one object a line and nothing else, in the order of the backends asked for', async () => {
  const found = await rows('--backend', 'wasm,cpu', '--density', '0.01');
  const time = expect.any(Number) as number;
  expect(found).toEqual(
    ['wasm', 'cpu'].map(backend => ({
      bench: 'optimizer',
      backend,
      parameters: 10_001,
      tensors: 3,
      density: 0.01,
      steps: 1,
      plainMs: time,
      wrappedMs: time,
      ratio: time,
      split: { copyOut: time, compress: time, exchange: time, copyIn: time },
    })),
  );
  for (const { plainMs, wrappedMs, ratio, split } of found) {
    const parts = [split.copyOut, split.compress, split.exchange, split.copyIn];
    for (const part of [plainMs, ...parts]) expect(part).toBeGreaterThan(0);
    // Of a single step the parts are parts of the whole; 1 ns each for rounding.
    expect(parts.reduce((sum, part) => sum + part)).toBeLessThan(wrappedMs + 5e-6);
    expect(ratio).toBeCloseTo(wrappedMs / plainMs, 2);
  }
});

test('of all backends each has a row, or a line on stderr that says why not', async () => {
  const program = optimizer(...small);
  expect((await program.exited).exitCode).toBe(0);
  const found = program.stdout.trimEnd().split('\n').map(line => (JSON.parse(line) as OptimizerRow).backend); // prettier-ignore
  const leftOut = program.stderr.trimEnd().split('\n').map(line => /^(.*) is left out\. TensorFlow\.js backend: /.exec(line)?.[1]); // prettier-ignore
  expect(found).toEqual(expect.arrayContaining(['wasm', 'cpu']));
  expect(leftOut).toContain('tfjs-node');
  expect([...found, ...leftOut].sort()).toEqual(['cpu', 'tfjs-node', 'tfjs-node-gpu', 'wasm']);
});

test('a backend that is asked for and not here is an error', async () => {
  const program = optimizer(...small, '--backend', 'cpu,tfjs-node');
  expect((await program.exited).exitCode).toBe(1);
  expect(program.stderr).toMatch(/^gradring: ERR_BACKEND: .*'tfjs-node' was asked for .*not installed.*\n$/);
  expect(JSON.parse(program.stdout)).toMatchObject({ backend: 'cpu' });
});

test('a measurement that fails is an error in its words', async () => {
  const env = { GRADRING_TIMEOUT_MS: 'soon' };
  const program = new Program(
    [path.join(ROOT, 'dist/cli.js'), 'bench', 'optimizer', ...small, '--backend', 'cpu'],
    env,
  );
  expect((await program.exited).exitCode).toBe(1);
  expect(program.stderr).toMatch(/^gradring: ERR_BACKEND: The measurement on cpu ended early: GRADRING_TIMEOUT_MS /);
  expect(program.stdout).toBe('');
});

describe("ResNet-50's step", () => {
  /** Runs with another function in the place of that which takes minutes. */
  function withStep(source: string): Program {
    const preload = script(`
      const Module = require('node:module');
      const load = Module._load;
      Module._load = (request, ...rest) =>
        request === './resnet50-step' ? { measureResNet50Step: ${source} } : load(request, ...rest);`);
    const args = ['bench', 'optimizer', ...small, '--backend', 'cpu', '--resnet50-step'];
    return new Program([path.join(ROOT, 'dist/cli.js'), ...args], { NODE_OPTIONS: `--require ${preload}` });
  }

  test('of 8 images of 224 × 224 is what the wrapped step is a share of', async () => {
    const program = withStep('({ batchSize, imageSize }) => 1000 * batchSize + imageSize');
    expect((await program.exited).exitCode).toBe(0);
    const { wrappedMs, stepMs, shareOfStep } = JSON.parse(program.stdout) as OptimizerRow;
    expect(stepMs).toBe(8224);
    expect(shareOfStep).toBeCloseTo(wrappedMs / 8224, 3);
  });

  test('is left out with a word where it cannot be done', async () => {
    const program = withStep(`() => { throw new Error('no room'); }`);
    expect((await program.exited).exitCode).toBe(0);
    expect(program.stderr).toBe("ResNet-50's step cannot be timed on cpu: no room\n");
    const row = JSON.parse(program.stdout) as OptimizerRow;
    expect(row.wrappedMs).toBeGreaterThan(0);
    expect(row).not.toHaveProperty('stepMs');
    expect(row).not.toHaveProperty('shareOfStep');
  });
});

test('without --json it is a table, with the units in the headings', async () => {
  const program = optimizer(...small.slice(0, -1), '--backend', 'cpu');
  expect((await program.exited).exitCode).toBe(0);
  const [headings, row, ...rest] = program.stdout.split('\n');
  expect(headings).toBe(
    'backend  parameters  plain ms  wrapped ms  ratio  copy out ms  compress ms  exchange ms  copy in ms',
  );
  expect(row).toMatch(/^cpu +10,001( +\d+\.\d\d){7}$/);
  expect(rest).toEqual(['']);
});

test.each([
  [['--parameters', '0'], "--parameters is '0'; it must be a whole number, 1 or more"],
  [['--parameters', 'many'], "--parameters is 'many'; it must be"],
  [['--parameters', '2', '--tensors', '3'], "--tensors is '3'; it must be a whole number from 1 to 2"],
  [['--tensors', '3'], '--tensors goes with --parameters'],
  [['--parameters', '2', '--model', 'resnet50'], '--model and --parameters exclude each other'],
  [['--model', 'resnet5'], 'Did you mean resnet50?'],
  [['--backend', 'wasn'], 'Did you mean wasm?'],
  [['--density', '0'], "--density is '0'; it must be more than 0 and at most 1"],
  [['--density', '1.5'], "--density is '1.5'; it must be"],
  [['--steps', '0'], "--steps is '0'; it must be a whole number, 1 or more"],
  [['--step', '5'], 'Unknown option: --step. Did you mean --steps?'],
])('a wrong command line is one line and exit code 2: %j', (args, words) =>
  expectBenchRefusal(['optimizer', ...args], words),
);

test('--help says what the figures are', async () => {
  const { exitCode, stdout } = await gradringHere('bench', 'optimizer', '--help');
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(/the ratio is wrapped ÷\s+plain[^]*--backend[^]*Examples:\n +gradring bench optimizer/);
});
