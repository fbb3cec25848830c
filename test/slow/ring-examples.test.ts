import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

const CLI = path.join(__dirname, '../../dist/cli.js');

/** What a program prints at its end. */
interface Result {
  readonly losses: [first: number, last: number];
  readonly weights: number;
}

async function run(...args: string[]): Promise<Result[]> {
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 100_000 });
  return stdout
    .split('\n')
    .filter(line => line.startsWith('{'))
    .map(line => JSON.parse(line) as Result);
}

/** The lines of a program, without its imports and marks for the formatter. */
function linesOf(file: string): string[] {
  const lines = readFileSync(file, 'utf8').replaceAll(' // prettier-ignore', '').split('\n');
  return lines.filter(line => !/require\(/.test(line));
}

describe.each([
  ['cnn', 3],
  ['dataset', 3],
  ['two-optimizers', 5], // connect, two wraps, broadcastVariables, shard
])('%s', (name, promised) => {
  const plain = path.join(__dirname, '../examples', `${name}.js`);
  const onRing = path.join(__dirname, '../examples', `${name}-ring.js`);

  test(`becomes a program for a ring by ${promised} lines`, () => {
    const before = new Set(linesOf(plain));
    expect(linesOf(onRing).filter(line => !before.has(line))).toHaveLength(promised);
  });

  test('learns on two ranks as alone, with the same weights on both', async () => {
    const [[alone], ranks] = await Promise.all([run(plain), run(CLI, 'run', '-n', '2', '--no-prefix', onRing)]);
    expect(ranks).toHaveLength(2);
    const [first, second] = ranks;
    expect(second!.weights).toBe(first!.weights);
    for (const { losses } of [alone!, first!, second!]) expect(losses[1]).toBeLessThan(0.95 * losses[0]);
  }, 120_000);
});
