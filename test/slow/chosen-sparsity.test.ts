import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { runFixture } from '../tensorflow/support';

interface Said {
  readonly lines: string[];
  readonly densities: number[];
  readonly density: number;
  readonly loss: number;
}

type Runs = Record<string, Said> & { readonly long: Record<'plain' | 'chosen' | 'paper', Said> };

let dir: string;
let ranks: readonly Runs[];
beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'gradring-chosen-'));
  const run = (input: object) => runFixture<Runs>('chosen-sparsity.js', { ranks: 2, backend: 'wasm', input });
  const all = await run({ dir });
  const resumed = await run({ dir, resumes: true });
  ranks = all.map((runs, rank) => ({ ...runs, ...resumed[rank] }));
}, 180_000);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const CHOSE = (sparsity: number, steps: number, optimizer = String.raw`Momentum optimizer of sequential\S*`) =>
  new RegExp(
    String.raw`^gradring: dgc\(\) chose a sparsity of ${sparsity} for ${steps} steps of the ${optimizer}\. dgc\(\{ sparsity \}\) sets another\.$`,
  );

test.each<[string, RegExp[]]>([
  ['fit', [CHOSE(0.75, 12)]],
  ['dataset', [CHOSE(0.75, 12)]],
  ['twice', [CHOSE(0.75, 12)]],
  ['sgd', [CHOSE(0.75, 12, String.raw`SGD optimizer of sequential\S*`)]],
  ['adam', [/^warning: Adam cannot correct .* only 75 % .*noCompression\(\) is exact/]],
  ['adam again', []], // a program may wrap several optimizers
  ['adam, 0.999', [/^warning: A sparsity of 0\.999/, /^warning: Adam .* falls more slowly/]],
  [
    'given, too sparse',
    [
      /^warning: A sparsity of 0\.999 sends an element once in 1000 steps on average, but the Momentum optimizer of sequential\S* takes 12 steps: /,
    ],
  ],
  ['given', []],
  ['loop, steps', [CHOSE(0.9, 100, "Momentum optimizer of '[^']*'")]],
  [
    'loop, no steps',
    [
      /^gradring: dgc\(\) does not know how many steps the Momentum optimizer of '.*' will take\. .* dgc\(\{ steps \}\)/,
    ],
  ],
  ['adam, 0.5', []],
  ['one epoch of a dataset', []],
  [
    'one epoch of warm-up, unknown steps',
    [
      /^warning: A sparsity of 0\.95 sends an element once in 20 steps on average, but the Momentum optimizer of sequential\S* takes 8 steps: /,
      /^warning: The warm-up of dgc\(\) for the Momentum optimizer of \S* has 2 stages, more than its epoch\. .* warmUpSteps/,
    ],
  ],
  ['loop, one epoch', []],
  [
    'loop, one epoch, unknown steps',
    [
      /^warning: The warm-up of dgc\(\) for the Momentum optimizer of '.*' has 4 stages, more than its epoch\. .* setEpoch/,
    ],
  ],
  ['a loop of fits', [CHOSE(0.75, 20), CHOSE(0.875, 80)]],
  ['not compressed', []],
  ['first', [CHOSE(0.75, 8)]],
  ['resumed', [CHOSE(0.75, 16)]], // another model.fit, after the one that had ended
])('%s: rank 0 says what it must, once', (name, lines) => {
  const expected = lines.map(line => expect.stringMatching(line));
  expect(ranks[0]![name]!.lines.sort()).toEqual(expected);
  expect(ranks[1]![name]!.lines).toEqual([]);
});

test('the density follows the number of steps, on all ranks', () => {
  for (const runs of ranks) {
    expect(new Set(runs['fit']!.densities)).toEqual(new Set([0.25]));
    expect(new Set(runs['dataset']!.densities)).toEqual(new Set([0.25]));
    expect(new Set(runs.long.chosen.densities)).toEqual(new Set([0.1]));
    expect(runs['loop, steps']!.density).toBe(0.1);
    expect(runs['loop, no steps']!.density).toBe(0.25);
    expect(runs['given']!.densities.slice(-1)).toEqual([0.25]); // within the warm-up
  }
});

test('a warm-up of one epoch goes through all stages, in model.fit and in a loop that tells its steps', () => {
  const stages = [0.25, 0.0625, 0.015625, 0.004];
  for (const runs of ranks) {
    expect(runs['one epoch']!.densities).toEqual([...stages, 0.001, 0.001, 0.001, 0.001]);
    expect(runs['loop, one epoch']!.densities).toEqual(stages.flatMap(stage => [stage, stage]));
  }
});

test('a training of 100 steps comes as far as without compression; at 0.999 it does not', () => {
  const { plain, chosen, paper } = ranks[0]!.long;
  expect(chosen.loss).toBeLessThan(2 * plain.loss);
  expect(paper.loss).toBeGreaterThan(3 * plain.loss);
});
