import * as tf from '@tensorflow/tfjs';
import { stripVTControlCharacters } from 'node:util';
import type { Communicator } from '../../src/communicator/communicator';
import { quietCpuBackend } from '../../src/tensorflow/cpu-backend';
import { FitProgress } from '../../src/tensorflow/fit-progress';
import { launchFixture } from './support';

test('rank 0 prints a line for each epoch, with the metrics of all ranks; with verbose 0 none', async () => {
  const { exitCode, results, output } = await launchFixture<{ bars: number }>('progress.js', { ranks: 2 });
  expect({ exitCode, results }).toEqual({ exitCode: 0, results: [{ bars: 0 }, { bars: 0 }] });
  const shown = output.split(/^\[0\] verbose \d\n/m).slice(1);
  const lines = shown.map(text => text.split('\n').filter(line => /^\[\d\] epoch/.test(line)));
  // Rank 0 has 3 in each row, and rank 1 has 6. All weights are 0, and stay so.
  const epochs = [
    /^\[0\] epoch 1\/2: loss 22\.5, mae 4\.5, \S+ steps\/s, sent \S+ kB \(\S+× more\), \d+:\d\d left$/,
    /^\[0\] epoch 2\/2: loss 22\.5, mae 4\.5, \S+ steps\/s, sent \S+ kB \(\S+× more\)$/,
  ].map(line => expect.stringMatching(line) as unknown);
  expect(lines).toEqual([[], epochs, epochs]);
});

describe('on a terminal', () => {
  beforeAll(() => void quietCpuBackend());

  interface Scene {
    readonly verbose?: number;
    readonly rank?: number;
    readonly isTTY?: boolean;
    readonly columns?: number;
    readonly samples?: number | null;
  }

  /** What is written in two epochs of four steps, of a second each. */
  async function written({
    verbose = 1,
    rank = 0,
    isTTY = true,
    columns = 120,
    samples = 16,
  }: Scene): Promise<string[]> {
    const texts: string[] = [];
    const clock = { ms: 0 };
    const communicator = { rank, worldSize: 4 } as Communicator;
    const stream = { isTTY, columns, write: (text: string) => texts.push(text) };
    const progress = new FitProgress(communicator, verbose, stream, () => clock.ms);
    progress.setParams({ epochs: 2, samples, batchSize: 4, steps: null } as never);
    Object.assign(progress, { model: { optimizer: { statistics: { bytesSent: 2e6, denseBytes: 5e8 } } } });
    for (const epoch of [0, 1]) {
      await progress.onEpochBegin(epoch);
      for (const batch of [0, 1, 2, 3]) {
        clock.ms += 1000;
        await progress.onBatchEnd(batch, { loss: tf.scalar(0.5) });
      }
      await progress.onEpochEnd(epoch, { val_loss: 0.25, loss: 0.123456 });
    }
    return texts;
  }

  const sent = 'sent 2 MB (250× less)';

  test('a bar is drawn in one line, and the line of the epoch replaces it', async () => {
    const texts = await written({});
    expect(texts.every(text => /^(\r|epoch)/.test(text))).toBe(true);
    expect(texts.map(stripVTControlCharacters).map(text => text.replaceAll('\r', ''))).toEqual([
      `epoch 1/2 [=====               ] 1/4, loss 0.5 on rank 0, 1 steps/s, ${sent}, 0:07 left`,
      `epoch 1/2 [==========          ] 2/4, loss 0.5 on rank 0, 1 steps/s, ${sent}, 0:06 left`,
      `epoch 1/2 [===============     ] 3/4, loss 0.5 on rank 0, 1 steps/s, ${sent}, 0:05 left`,
      `epoch 1/2 [====================] 4/4, loss 0.5 on rank 0, 1 steps/s, ${sent}, 0:04 left`,
      '',
      `epoch 1/2: loss 0.1235, val_loss 0.25, 1 steps/s, ${sent}, 0:04 left\n`,
      `epoch 2/2 [=====               ] 1/4, loss 0.5 on rank 0, 1 steps/s, ${sent}, 0:03 left`,
      `epoch 2/2 [==========          ] 2/4, loss 0.5 on rank 0, 1 steps/s, ${sent}, 0:02 left`,
      `epoch 2/2 [===============     ] 3/4, loss 0.5 on rank 0, 1 steps/s, ${sent}, 0:01 left`,
      `epoch 2/2 [====================] 4/4, loss 0.5 on rank 0, 1 steps/s, ${sent}, 0:00 left`,
      '',
      `epoch 2/2: loss 0.1235, val_loss 0.25, 1 steps/s, ${sent}\n`,
    ]);
  });

  test('a dataset of unknown length has a bar from the second epoch', async () => {
    const [first, , , , , , fifth] = (await written({ samples: null })).map(stripVTControlCharacters);
    expect(first).toContain(`epoch 1/2 step 1, loss 0.5 on rank 0, 1 steps/s, ${sent}\r`);
    expect(fifth).toContain('epoch 2/2 [=====               ] 1/4,');
  });

  test('a narrow one gets no more than it has room for', async () => {
    const texts = (await written({ columns: 30 })).filter(text => text.endsWith('\r'));
    expect(texts).toHaveLength(8);
    for (const text of texts) expect(stripVTControlCharacters(text).replaceAll('\r', '')).toHaveLength(29);
  });

  test('of the launcher, a line is marked instead, and the launcher replaces it', async () => {
    const texts = await written({ isTTY: false });
    expect(texts).toHaveLength(10);
    const marked = texts.filter(text => text.startsWith('\x1b[2K'));
    expect(marked).toHaveLength(8);
    for (const text of marked) expect(text).toMatch(/^\S+epoch \d\/2 \[=+ *\] \d\/4, loss .* left\n$/);
  });

  test.each([
    ['verbose 2', { verbose: 2 }, 2],
    ['another rank', { rank: 1 }, 0],
  ])('%s: no bar', async (_, scene, count) => {
    const texts = await written(scene);
    expect(texts).toHaveLength(count);
    for (const text of texts) expect(text).toMatch(/^epoch \d\/2: .*\n$/);
  });
});
