import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readResults } from '../../src/study/read-results';

const CLI = path.join(__dirname, '../../dist/cli.js');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'gradring-study-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a study. After so many trainings it is interrupted, by SIGINT if nothing else is said. */
async function study(
  args: readonly string[],
  interruptAfter = Infinity,
  interrupt = (child: ChildProcess) => child.kill('SIGINT'),
) {
  const child = spawn(process.execPath, [CLI, 'study', ...args], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  let [stdout, stderr] = ['', ''];
  let isInterrupted = false;
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
    if (isInterrupted || stderr.split(' min left').length <= interruptAfter) return;
    isInterrupted = interrupt(child);
  });
  const [exitCode] = (await once(child, 'close')) as [number];
  return { exitCode, stdout, stderr };
}

test('a quick study is interrupted, goes on, and ends with its results and its page', async () => {
  const command = ['--quick', '-n', '2', '--compressor', path.join(__dirname, '../../docs/how-to/sign-sgd.js')];
  const interrupted = await study(command, 3);
  expect(interrupted.stderr).toMatch(/The same command goes on from here/);
  expect(interrupted.exitCode).toBe(130);

  const shorter = [...command, '--workload', 'digits,speech']; // the next test studies language
  const { exitCode, stdout, stderr } = await study(shorter);
  expect(stderr).toMatch(/^\d+ trainings are done/);
  expect(stdout).toMatch(/digits: accuracy[^]*speech: label error rate/);
  expect(exitCode).toBe(0);

  const { workloads } = readResults(path.join(folder, 'study-quick.json'));
  for (const { methods, controls } of workloads) {
    expect(methods.map(({ name }) => name)).toEqual(expect.arrayContaining(['dense', 'DGC', 'gradient dropping', 'QSGD', 'sign-sgd']));
    expect(methods.find(({ name }) => name === 'sign-sgd')!.options).toEqual(methods[0]!.options); // clipped alike
    for (const { seeds, ratio } of methods) {
      expect(seeds.length).toBeGreaterThanOrEqual(2);
      expect(ratio).toBeGreaterThan(0);
    }
    expect(controls.mustFail?.method).toBe('gradient dropping');
  }

  expect((await study(['--from', 'study-quick.json', '--html', 'page.html'])).exitCode).toBe(0);
  expect(readFileSync(path.join(folder, 'page.html'), 'utf8')).toMatch(/gradient dropping/);
}, 1_200_000); // prettier-ignore

test('a study of language takes the Penn Treebank', async () => {
  const words = (count: number) => Array.from({ length: count }, (_, i) => ['<unk>', 'the', 'cat', 'sat'][(i * i) % 4]);
  for (const [part, count] of [['train', 8000], ['valid', 1200], ['test', 1200]] as const) {
    writeFileSync(path.join(folder, `ptb.${part}.txt`), words(count).join(' '));
  }
  const command = ['--quick', '-n', '2', '--workload', 'language', '--data-dir', '.'];
  const { exitCode, stdout } = await study(command);
  expect(stdout).toMatch(/language: perplexity/);
  expect(exitCode).toBe(0);
  const { workloads, limits } = readResults(path.join(folder, 'study-quick.json'));
  expect(workloads[0]!.data).toContain(`Penn Treebank in ${realpathSync(folder)}`);
  expect(limits.join()).not.toContain('Penn Treebank');
}, 300_000); // prettier-ignore

test('a study ends with an error if a training cannot be written down', async () => {
  const results = path.join(folder, 'results');
  mkdirSync(results);
  const args = ['--quick', '-n', '2', '--workload', 'digits', '--json', 'results/x.json'];
  const removed = () => {
    rmSync(results, { recursive: true });
    return true;
  };
  const { exitCode, stderr } = await study(args, 1, removed);
  expect(stderr).toMatch(/ENOENT.*x\.json\.trainings/);
  expect(exitCode).toBe(1);
}, 300_000);

test.each([
  [['--from', 'study.json'], /--from needs --html/],
  [['--from', 'none.json', '--html', 'page.html'], /none\.json/],
  [['--workload', 'digit'], /--workload is 'digit'.*Did you mean digits/],
  [['-n', 'two'], /--ranks is 'two'/],
  [['--data-dir', '.'], /--data-dir needs --workload, with language or speech/],
  [['--data-dir', '.', '--workload', 'digits'], /--data-dir needs --workload/],
  [['--json', 'no/x.json'], /--json is 'no\/x\.json', but .*no does not exist/],
  [['--json', '.'], /--json is '\.', which is a folder/],
  [['--html', 'no/x.html'], /--html is 'no\/x\.html', but .*no does not exist/],
  [['--from', 'study.json', '--html', 'no/x.html'], /--html is 'no\/x\.html', but .*no does not exist/],
  [['--compressor', 'dense.js'], /The study has a method dense\. Give .*dense\.js another name/],
  [['--compressor', 'none.js'], /none\.js cannot be read.*exports a compressor/],
])('%p is told in a line', async (args, message) => {
  const { exitCode, stderr } = await study(args);
  expect(stderr).toMatch(message);
  expect(exitCode).toBe(2);
}); // prettier-ignore
