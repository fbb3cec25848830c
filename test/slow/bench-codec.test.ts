import type { CodecRow } from '../../src/bench/codec';
import { cleanUp } from '../launcher/support';
import { benchOutput, benchOutputOfProcess, expectBenchRefusal } from '../bench/commands';

afterEach(cleanUp);

const output = (...args: string[]) => benchOutput('codec', ...args);
const outputOfProcess = (...args: string[]) => benchOutputOfProcess('codec', ...args);

async function rows(...args: string[]): Promise<CodecRow[]> {
  const text = await output(...args, '--json');
  return text.trimEnd().split('\n').map(line => JSON.parse(line) as CodecRow); // prettier-ignore
}

test('--json is one object a line and nothing else', async () => {
  const text = await outputOfProcess(
    '--model',
    'resnet50',
    '--values',
    'int8',
    '--steps',
    '1',
    '--seed',
    '3',
    '--json',
  );
  expect(text).toMatch(/^\{.*\}\n$/);
  const number = expect.any(Number) as number;
  expect(JSON.parse(text)).toEqual({
    bench: 'codec',
    model: 'resnet50',
    values: 'int8',
    density: 0.001,
    parameters: 25_557_032,
    denseBytes: 102_228_128,
    wireBytes: number,
    compressionRatio: number,
    sparseEntries: 25_533,
    denseEntries: 54_120,
    bitsPerIndex: number,
    entropyBitsPerIndex: number,
    bitsPerValue: number,
    bitsPerDenseValue: number,
    indexBytes: number,
    sparseValueBytes: number,
    denseValueBytes: number,
    overheadBytes: number,
    distribution: 'normal',
    steps: 1,
    seed: 3,
  } satisfies CodecRow);
});

test('the whole of a step is as small as promised, and its indices near their entropy', async () => {
  const found = await rows('--model', 'resnet50,alexnet');
  expect(found.map(({ model, values }) => [model, values])).toEqual([
    ['resnet50', 'float16'],
    ['resnet50', 'int8'],
    ['alexnet', 'float16'],
    ['alexnet', 'int8'],
  ]);
  const least = [522, 850, 1050, 1500];
  for (const [i, row] of found.entries()) {
    expect(row.compressionRatio).toBeGreaterThanOrEqual(least[i]!);
    expect(row.bitsPerIndex).toBeLessThanOrEqual(1.02 * row.entropyBitsPerIndex);
    const { indexBytes, sparseValueBytes, denseValueBytes, overheadBytes } = row;
    expect(indexBytes + sparseValueBytes + denseValueBytes + overheadBytes).toBe(row.wireBytes);
  }
});

test('a result does not depend on what is measured beside it', async () => {
  const args = ['--distribution', 'laplace', '--steps', '1'];
  const together = await rows('--model', 'resnet50', '--values', 'log4,float32', '--density', '0.25,0.001', ...args);
  const alone = await rows('--model', 'resnet50', '--values', 'float32', ...args);
  expect(together).toHaveLength(4);
  expect(together[3]).toEqual(alone[0]);
});

test('without --json it is a table', async () => {
  const [headings, first, second, ...rest] = (await output('--model=resnet50', '--steps=1')).split('\n');
  expect(headings).toMatch(/^model     values   density  dense bytes  wire bytes  ratio  index bits  entropy bits  /);
  expect(first).toMatch(/^resnet50  float16    0\.001  102,228,128     1\d\d,\d{3}  \d{3}\.\d  /);
  expect(second).toMatch(/^resnet50  int8 /);
  expect(rest).toEqual(['']);
});

test.each([
  [
    ['--model', 'resnet5'],
    /--model is 'resnet5'; it must be one of resnet50, alexnet, .*, all\. Did you mean resnet50\?/,
  ],
  [['--model', 'resnet50,'], /--model is ''; it must be one of resnet50/],
  [['--values', 'float16,float8'], /--values is 'float8'; it must be one of float32, .*log4\. Did you mean float/],
  [['--density', '0'], /--density is '0'; it must be more than 0 and less than 1/],
  [['--density', '0.1,1'], /--density is '1'; it must be/],
  [['--distribution', 'lapalce'], /it must be one of normal, laplace\. Did you mean laplace\?/],
  [['--distribution', 'sorted'], /--distribution is 'sorted'; it must be one of normal, laplace\./],
  [['--steps', '0'], /--steps is '0'; it must be a whole number, 1 or more/],
  [['--seed', '1.5'], /--seed is '1\.5'; it must be/],
  [['--models', 'alexnet'], /Unknown option: --models\. Did you mean --model\?/],
])('a wrong command line is one line and exit code 2: %j', (args, words) =>
  expectBenchRefusal(['codec', ...args], words),
);

test('--help lists the options', async () => {
  expect(await output('--help')).toMatch(/--model[^]*--values[^]*--density[^]*Examples:\n +gradring bench codec/);
});
