import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { BANDS, SAMPLE_RATE, centreOf, filterBank } from '../../scripts/train/data/filter-bank';
import { loadLibriSpeech } from '../../scripts/train/data/libri-speech';
import { syntheticUtterances } from '../../scripts/train/data/utterances';
import { framesAfter, gru, speechModel } from '../../scripts/train/speech-model';
import { batchesOf, editDistance, toBatch } from '../../scripts/train/speech-training';
import study from '../../scripts/train/study/speech';
import { loadBackend } from '../../src/tensorflow/backend';
import { noCompression } from '../../src/compression/dgc-options';
import { connect } from '../../src/tensorflow/ring';
import { collectLess } from '../support/garbage';
import { random } from '../support/random';

beforeAll(() => loadBackend({ backend: 'wasm' }));
beforeAll(collectLess);

describe('synthetic utterances', () => {
  const made = syntheticUtterances({ trainCount: 60, testCount: 20, seed: 1 });
  const all = [...made.train, ...made.test];

  test('say that they are synthetic, are the same for a seed, and others for another', () => {
    expect(made.source).toMatch(/^synthetic/);
    expect(syntheticUtterances({ trainCount: 60, testCount: 20, seed: 1 })).toEqual(made);
    expect(syntheticUtterances({ trainCount: 1, testCount: 1, seed: 2 }).train[0]).not.toEqual(made.train[0]);
  });

  test('have 4 to 10 labels, sometimes equal neighbours, and frames enough for them', () => {
    const repeats = ({ labels }: (typeof all)[0]) => labels.filter((label, i) => label === labels[i - 1]).length;
    for (const utterance of all) {
      const { features, frames, labels } = utterance;
      expect(features).toHaveLength(frames * BANDS);
      expect([labels.length >= 4, labels.length <= 10]).toEqual([true, true]);
      expect(labels.every(label => label >= 1 && label <= made.symbols.length)).toBe(true);
      expect(framesAfter(frames)).toBeGreaterThanOrEqual(labels.length + repeats(utterance));
    }
    expect(all.some(utterance => repeats(utterance) > 0)).toBe(true);
  });
});

test('an epoch has each utterance once, in another order each time, and lengths that are close in a batch', () => {
  const next = random(1);
  const utterances = Array.from({ length: 64 }, () => ({ frames: 20 + Math.floor(next() * 60) }));
  const options = { batchSize: 8, seed: 1, epoch: 0 };
  const first = batchesOf(utterances, options);
  expect(new Set(first.flat())).toEqual(new Set(utterances));
  expect(batchesOf(utterances, options)).toEqual(first);
  expect(batchesOf(utterances, { ...options, epoch: 1 })).not.toEqual(first);
  const spread = (batch: { frames: number }[]) =>
    Math.max(...batch.map(({ frames }) => frames)) - Math.min(...batch.map(({ frames }) => frames));
  const spreads = first.map(spread);
  expect(spreads.reduce((sum, each) => sum + each, 0) / spreads.length).toBeLessThan(spread(utterances) / 2);
  expect(batchesOf(utterances.slice(0, 15), options)).toHaveLength(1);
});

test.each([
  ['kitten', 'sitting', 3],
  ['', 'abc', 3],
  ['abc', '', 3],
  ['abc', 'abc', 0],
  ['ba', 'ab', 2],
])('from %j to %j: %d edits', (from, to, edits) => {
  expect(editDistance([...from] as never, [...to] as never)).toBe(edits);
});

describe.each([false, true])('a GRU, reversed: %s', isReversed => {
  const [time, batch, units] = [5, 3, 4];
  const lengths = [5, 2, 4];
  const inputs = () => tf.randomUniform([time, batch, 3 * units], -2, 2, 'float32', 1) as tf.Tensor3D;
  const weights = () => tf.randomUniform([units, 3 * units], -1, 1, 'float32', 2) as tf.Tensor2D;

  /** With ordinary ops and their gradients. */
  function reference(x: tf.Tensor3D, w: tf.Tensor2D): tf.Tensor {
    const states: tf.Tensor[] = [];
    let state = tf.zeros([batch, units]);
    for (let i = 0; i < time; i++) {
      const t = isReversed ? time - 1 - i : i;
      const [xr, xz, xn] = tf.split(x.slice([t], [1]).squeeze([0]), 3, 1);
      const [hr, hz, hn] = tf.split(tf.matMul(state as tf.Tensor2D, w), 3, 1);
      const update = xz!.add(hz!).sigmoid();
      const candidate = xn!.add(xr!.add(hr!).sigmoid().mul(hn!)).tanh();
      const next = update.mul(state).add(tf.scalar(1).sub(update).mul(candidate));
      const isWithin = tf.tensor2d(lengths.map(length => [t < length ? 1 : 0]));
      state = next.mul(isWithin).add(state.mul(tf.scalar(1).sub(isWithin)));
      states[t] = state;
    }
    return tf.stack(states);
  }

  test('has the states and gradients of its definition', () => {
    tf.tidy(() => {
      const weigh = (y: tf.Tensor) => y.mul(tf.cos(tf.range(0, y.size)).reshape(y.shape)).sum();
      const results = [reference, (x: tf.Tensor3D, w: tf.Tensor2D) => gru(tf, x, w, { lengths, isReversed })].map(f => [
        f(inputs(), weights()),
        ...tf.grads((x: tf.Tensor, w: tf.Tensor) => weigh(f(x as tf.Tensor3D, w as tf.Tensor2D)) as tf.Scalar)([inputs(), weights()]),
      ]); // prettier-ignore
      results[0]!.forEach((expected, i) => {
        expect(results[1]![i]!.shape).toEqual(expected.shape);
        expect(expected.sub(results[1]![i]!).abs().max().arraySync()).toBeLessThan(1e-5);
      });
    });
  });
});

test('the model learns, every variable has a gradient, and padding does not change what it hears', () => {
  const { train, symbols } = syntheticUtterances({ trainCount: 4, testCount: 0, seed: 3 });
  const before = tf.memory().numTensors;
  const sizes = { features: BANDS, filters: 16, units: 12, layers: 2, classes: symbols.length + 1, seed: 1 };
  const model = speechModel(tf, sizes);
  expect(tf.memory().numTensors - before).toBe(model.variables.length);
  const batch = toBatch(tf, train);
  const [shortest] = [...train].sort((a, b) => a.frames - b.frames);
  const alone = toBatch(tf, [shortest!]);
  const inBatch = model.tested(batch).losses[train.indexOf(shortest!)]!;
  expect(model.tested(alone).losses[0]).toBeCloseTo(inBatch, 3);

  const { value, grads } = tf.variableGrads(() => model.losses(batch).mean());
  expect(Object.keys(grads)).toHaveLength(model.variables.length);
  for (const gradient of Object.values(grads))
    expect(tf.tidy(() => gradient.abs().sum().arraySync())).toBeGreaterThan(0);
  const optimizer = tf.train.momentum(0.005, 0.9, true);
  for (let step = 0; step < 12; step++) optimizer.minimize(() => model.losses(batch).mean());
  const trained = tf.tidy(() => model.losses(batch).mean().arraySync() as number);
  expect(trained).toBeLessThan(0.6 * (value.arraySync() as number));
  optimizer.dispose();
  tf.dispose([value, grads, batch.x, alone.x, model.variables]);
});

test('the study trains from a seed: the same again, another with another, and leaves nothing behind', async () => {
  const ring = await connect();
  const prepared = await study.prepare(tf, { quick: true, worldSize: 1, dataDir: undefined });
  expect(prepared.data).toMatch(/synthetic/);
  // 2 epochs of 4 steps
  const few = ({ train, test }: Pick<typeof prepared, 'train' | 'test'>) => {
    return { train: train.slice(0, 16), test: test.slice(0, 4) };
  };
  const [counted, tuning] = [few(prepared), few(prepared.tuning)];
  const small = { ...prepared, ...counted, tuning };
  const train = async (seed: number, { isTuning = false, data = small } = {}) => {
    const reports: { step: number; loss: number; error: number }[] = [];
    const report = (each: (typeof reports)[0]) => reports.push(each);
    let optimizer!: tf.Optimizer;
    const wrapped = (plain: tf.Optimizer) =>
      (optimizer = ring.wrap(plain, { compression: noCompression({ clipNorm: 10 }) }));
    const settings = { isTuning, learningRate: 0.01, seed };
    const result = await study.train(data, { tf, ring, part: 0, wrapped, report, ...settings });
    optimizer.dispose();
    return { ...result, reports };
  };
  const first = await train(1);
  const before = tf.memory().numTensors;
  expect(await train(1)).toEqual(first);
  const other = await train(2);
  expect(tf.memory().numTensors - before).toBeLessThanOrEqual(2); // a scalar of tf.train.momentum for each training

  expect(other.logLoss).not.toBe(first.logLoss);
  expect(first.steps).toBe(8);
  expect(first.reports.map(({ step }) => step)).toEqual([2, 4, 6, 8]);
  expect(first.reports.at(-1)!.loss).toBeLessThan(first.reports[0]!.loss);
  expect(first.examples).toHaveLength(4);
  const mean = first.examples.reduce((sum, each) => sum + each, 0) / first.examples.length;
  expect(first.score).toBeCloseTo(mean, 10);

  // Learning rates are tried on utterances that do not count.
  const tried = await train(1, { isTuning: true });
  expect(tried).toEqual(await train(1, { data: { ...small, ...tuning, tuning: counted } }));
  expect(tried.examples).not.toEqual(first.examples);
  await ring.close();
});

describe('folders in the format of LibriSpeech', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'gradring-speech-'));
    for (const speaker of [1, 2]) {
      mkdirSync(path.join(folder, `${speaker}/7`), { recursive: true });
      write(`${speaker}/7/${speaker}-7.trans.txt`, `${speaker}-7-0000 HELLO THERE\n${speaker}-7-0001 IT'S\n`);
      write(`${speaker}/7/${speaker}-7-0000.wav`, wav(tone(500, 1)));
      write(`${speaker}/7/${speaker}-7-0001.wav`, wav(tone(2000, 0.5)));
    }
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const write = (name: string, data: Uint8Array | string) => writeFileSync(path.join(folder, name), data);
  const load = (isOwn: (i: number) => boolean = (): boolean => true) =>
    loadLibriSpeech(tf, folder, { trainCount: 9, testCount: 9, isOwn });

  function tone(hertz: number, seconds: number): Int16Array {
    const sample = (i: number) => 20_000 * Math.sin((2 * Math.PI * hertz * i) / SAMPLE_RATE);
    return Int16Array.from({ length: seconds * SAMPLE_RATE }, (_, i) => sample(i));
  }

  function wav(samples: Int16Array, { format = 1, channels = 1, rate = SAMPLE_RATE, bits = 16 } = {}): Buffer {
    const header = Buffer.alloc(44 + 10);
    header.write('RIFF', 0);
    header.writeUInt32LE(header.length - 8 + samples.byteLength, 4);
    header.write('WAVELIST', 8); // a chunk that a reader must pass over, with an odd length
    header.writeUInt32LE(1, 16);
    header.write('fmt ', 22);
    header.writeUInt32LE(16, 26);
    header.writeUInt16LE(format, 30);
    header.writeUInt16LE(channels, 32);
    header.writeUInt32LE(rate, 34);
    header.writeUInt16LE(bits, 44);
    header.write('data', 46);
    header.writeUInt32LE(samples.byteLength, 50);
    return Buffer.concat([header, Buffer.from(samples.buffer)]);
  }

  test('are what the study trains on, if it is told: half of those for testing are for the learning rates', async () => {
    const prepared = await study.prepare(tf, { quick: true, worldSize: 1, dataDir: folder });
    expect(prepared.data).toBe(`speech in ${folder}; 2 to train on, 1 to test`);
    const frames = (part: readonly { readonly frames: number }[]) => part.map(each => each.frames);
    const { train, test: tested } = await load();
    for (const part of [prepared, prepared.tuning]) expect(frames(part.train)).toEqual(frames(train));
    expect([...frames(prepared.tuning.test), ...frames(prepared.test)]).toEqual(frames(tested));
  });

  test('are read: letters, 10 ms a frame, one speaker of ten for testing', async () => {
    const { train, test: tested, symbols } = await load();
    expect([train, tested].map(part => part.map(({ labels }) => labels.map((label: number) => symbols[label - 1]).join('')))).toEqual([["HELLO THERE", "IT'S"], ["HELLO THERE", "IT'S"]]); // prettier-ignore
    expect(train.map(({ frames }) => frames)).toEqual([98, 48]);
    const others = await load(i => i === 1);
    expect(others.train.map(({ labels, features }) => [labels.length, features?.length])).toEqual([[11, undefined], [4, 48 * BANDS]]); // prettier-ignore
  });

  test('are features of power: a tone is loudest in the band where it is', () => {
    // The tone begins in the middle, so that its bands vary most.
    const samples = Float32Array.from([...new Int16Array(8000), ...tone(centreOf(9), 0.5)], value => value / 32768);
    const features = filterBank(tf)(samples);
    const frames = features.length / BANDS;
    for (let band = 0; band < BANDS; band++) {
      const values = Array.from({ length: frames }, (_, t) => features[t * BANDS + band]!);
      expect(values.reduce((sum, value) => sum + value, 0) / frames).toBeCloseTo(0, 3);
      expect(values.reduce((sum, value) => sum + value * value, 0) / frames).toBeCloseTo(1, 2);
    }
    expect(features[70 * BANDS + 9]).toBeGreaterThan(0.5);
    expect(features[10 * BANDS + 9]).toBeLessThan(-0.5);
  });

  test.each<[string, () => void, RegExp]>([
    ['one speaker', () => rmSync(path.join(folder, '2'), { recursive: true }), /has no <speaker>\/<chapter>\/.*\.trans\.txt of two speakers/],
    ['other letters', () => write('2/7/2-7.trans.txt', '2-7-0000 grüezi'), /2-7\.trans\.txt: the words of 2-7-0000 are not of A–Z/],
    ['no sound', () => rmSync(path.join(folder, '2/7/2-7-0001.wav')), /There is no .*2-7-0001\.flac, nor \.wav/],
    ['no WAV', () => write('2/7/2-7-0001.wav', 'sound'), /2-7-0001\.wav is no WAV file/],
    ['another format', () => write('2/7/2-7-0001.wav', wav(tone(9, 1), { format: 3, bits: 32 })), /is not of 16-bit PCM/],
    ['stereo', () => write('2/7/2-7-0001.wav', wav(tone(9, 1), { channels: 2 })), /has 2 channels at 16000 Hz/],
    ['another rate', () => write('2/7/2-7-0001.wav', wav(tone(9, 1), { rate: 44_100 })), /has 1 channels at 44100 Hz/],
    ['a file cut short', () => write('2/7/2-7-0001.wav', wav(tone(9, 1)).subarray(0, 999)), /is cut short/],
    ['too little time', () => write('2/7/2-7-0000.wav', wav(tone(9, 0.2))), /2-7-0000 is too short for its 11 letters/],
  ])('%s is refused', async (_, spoil, words) => {
    spoil();
    await expect(load()).rejects.toThrow(words);
  }); // prettier-ignore

  describe('of FLAC', () => {
    const tones = path.join(__dirname, 'fixtures/tones');
    const mono = readFileSync(path.join(tones, 'mono.flac'));

    /** In a process of its own, because Jest cannot import the decoder, an ES module. */
    function readSounds(files: string[], ...nodeOptions: string[]): { samples?: number[]; message?: string }[] {
      const program = path.join(__dirname, 'fixtures/read-sounds.js');
      const output = execFileSync(process.execPath, [...nodeOptions, program, ...files], { encoding: 'utf8' });
      return JSON.parse(output) as never;
    }

    test('sound has the samples that were encoded, and a damaged or unfit file is refused', () => {
      write('damaged.flac', Buffer.from(mono).fill(0, 4000, 4010));
      write('cut.flac', mono.subarray(0, -1));
      write('header.flac', mono.subarray(0, 20));
      write('empty.flac', '');
      write('text.flac', 'sound');
      write('unknown.flac', Buffer.from(mono).fill(0, 22, 26)); // 0 samples in the header, for an unknown number
      const samples = Array.from(tone(500, 0.5), value => value / 32768);
      const refused = (words: string) => ({ message: expect.stringContaining(words) as string });
      const cases: [string, ReturnType<typeof readSounds>[0]][] = [
        [`${tones}/mono`, { samples }],
        [`${tones}/silence`, { samples: Array<number>(5000).fill(0) }],
        [`${tones}/stereo`, refused('stereo.flac has 2 channels at 16000 Hz')],
        [`${tones}/44100-hz`, refused('44100-hz.flac has 1 channels at 44100 Hz')],
        ...['damaged', 'cut', 'header', 'empty', 'text'].map(
          name => [path.join(folder, name), refused(`${name}.flac is damaged, or no FLAC file.`)] as [string, object],
        ),
        [path.join(folder, 'unknown'), { samples }],
      ];
      expect(readSounds(cases.map(([file]) => file))).toEqual(cases.map(([, expected]) => expected));
    });

    test('sound without the decoder is refused with what to install', () => {
      const hide = `export const resolve = (name, context, next) => {
        if (name === '@wasm-audio-decoders/flac') throw Object.assign(new Error('hidden'), { code: 'ERR_MODULE_NOT_FOUND' });
        return next(name, context);
      }`;
      const dataUrl = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;
      const hooks = dataUrl(`import { register } from 'node:module'; register(${JSON.stringify(dataUrl(hide))});`);
      expect(readSounds([`${tones}/mono`], '--import', hooks)).toEqual([
        { message: expect.stringMatching(/npm install @wasm-audio-decoders\/flac\. Or convert the files to \.wav: flac -d/) as string },
      ]);
    }); // prettier-ignore
  });
});
