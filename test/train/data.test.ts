import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import * as tf from '@tensorflow/tfjs';
import { loadCifar10 } from '../../scripts/train/data/cifar10';
import { loadIdx } from '../../scripts/train/data/idx';
import { loadPennTreebank, rowsOf } from '../../scripts/train/data/words';

let folder: string;
beforeEach(() => (folder = mkdtempSync(path.join(tmpdir(), 'gradring-data-'))));
afterEach(() => rmSync(folder, { recursive: true }));

const write = (name: string, data: Uint8Array | string) => writeFileSync(path.join(folder, name), data);

describe('IDX, the format of MNIST', () => {
  function idx(sizes: readonly number[], bytes: readonly number[]): Buffer {
    const header = Buffer.alloc(4 + 4 * sizes.length);
    header.writeUInt8(8, 2);
    header.writeUInt8(sizes.length, 3);
    sizes.forEach((size, i) => header.writeUInt32BE(size, 4 + 4 * i));
    return Buffer.concat([header, Buffer.from(bytes)]);
  }

  function writeSet(): void {
    write('train-images-idx3-ubyte', idx([2, 2, 3], [0, 51, 102, 153, 204, 255, 255, 0, 0, 0, 0, 0]));
    write('train-labels-idx1-ubyte', idx([2], [9, 0]));
    write('t10k-images-idx3-ubyte.gz', gzipSync(idx([1, 2, 3], [0, 0, 0, 0, 0, 255])));
    write('t10k-labels-idx1-ubyte.gz', gzipSync(idx([1], [3])));
  }

  test('is read as intensities from 0 to 1 and one-hot labels, packed or not', () => {
    writeSet();
    const { train, test } = loadIdx(tf, folder);
    expect([train.x.shape, train.y.shape, test.x.shape]).toEqual([[2, 2, 3, 1], [2, 10], [1, 2, 3, 1]]); // prettier-ignore
    const pixels = [0, 0.2, 0.4, 0.6, 0.8, 1, 1, 0, 0, 0, 0, 0];
    train.x.dataSync().forEach((value, i) => expect(value).toBeCloseTo(pixels[i]!, 6));
    expect([...train.y.argMax(1).dataSync(), ...test.y.argMax(1).dataSync()]).toEqual([9, 0, 3]);
  });

  test.each([
    ['a file that is missing', () => rmSync(path.join(folder, 'train-labels-idx1-ubyte')), /has no train-labels-idx1-ubyte, nor/],
    ['another format', () => write('train-labels-idx1-ubyte', 'no IDX at all'), /is no IDX file of bytes in 1 dimensions/],
    ['other dimensions', () => write('train-images-idx3-ubyte', idx([2], [1, 2])), /is no IDX file of bytes in 3 dimensions/],
    ['a file cut short', () => write('train-labels-idx1-ubyte', idx([2], [1])), /holds 1 bytes where 2 need 2/],
    ['as many labels as there are not images', () => write('train-labels-idx1-ubyte', idx([3], [1, 2, 3])), /2 images, but 3 labels/],
    ['an eleventh class', () => write('train-labels-idx1-ubyte', idx([2], [1, 10])), /a label is over 9/],
  ])('%s is refused', (_, spoil, words) => {
    writeSet();
    spoil();
    expect(() => loadIdx(tf, folder)).toThrow(words);
  }); // prettier-ignore
});

describe('CIFAR-10, binary', () => {
  const AREA = 32 * 32;
  const image = (label: number, ...channels: number[]) =>
    Buffer.concat([Buffer.of(label), ...channels.map(value => Buffer.alloc(AREA, value))]);
  const NAMES = [1, 2, 3, 4, 5].map(number => `data_batch_${number}.bin`);

  test('is read channel by channel into pixels, normalized with the mean and deviation of the set', () => {
    NAMES.forEach((name, i) => write(name, image(i, 255, 0, 128)));
    write('test_batch.bin', Buffer.concat([image(7, 1, 2, 3), image(8, 4, 5, 6)]));
    const { train, test } = loadCifar10(folder);
    expect([...train.labels]).toEqual([0, 1, 2, 3, 4]);
    expect([...test.labels]).toEqual([7, 8]);
    const firstPixel = [(1 - 0.4914) / 0.247, -0.4822 / 0.2435, (128 / 255 - 0.4465) / 0.2616];
    firstPixel.forEach((value, channel) => expect(train.pixels[channel]).toBeCloseTo(value, 5));
    expect(train.pixels).toHaveLength(5 * 3 * AREA);
  });

  test.each([
    ['a file that is missing', () => rmSync(path.join(folder, 'data_batch_3.bin')), /has no data_batch_3.bin/],
    ['the Python version', () => write('data_batch_1.bin', 'pickled'), /no multiple of the 3073 of an image: is it the binary/],
    ['an empty file', () => write('test_batch.bin', ''), /test_batch.bin has 0 bytes/],
    ['a class of CIFAR-100', () => write('data_batch_2.bin', image(99, 0, 0, 0)), /data_batch_2.bin: the label of image 0 is 99/],
  ])('%s is refused', (_, spoil, words) => {
    [...NAMES, 'test_batch.bin'].forEach(name => write(name, image(0, 0, 0, 0)));
    spoil();
    expect(() => loadCifar10(folder)).toThrow(words);
  }); // prettier-ignore
});

describe('texts', () => {
  test('the Penn Treebank: the most frequent words have numbers, the others are unknown, lines have an end', () => {
    write('ptb.train.txt', ' the cat <unk> the mat \n a cat \n');
    write('ptb.valid.txt', ' cat <unk> \n');
    write('ptb.test.txt', ' the dog <unk> \n');
    const { vocabulary, train, valid, test } = loadPennTreebank(folder, 4);
    expect(vocabulary).toEqual(['<unk>', '<eos>', 'cat', 'the']); // by the word where counts are equal
    expect([...train]).toEqual([3, 2, 0, 3, 0, 1, 0, 2, 1]);
    expect([...valid]).toEqual([2, 0, 1]);
    expect([...test]).toEqual([3, 0, 0, 1]);
  });

  test('what is no such text, or is not there, is refused', () => {
    expect(() => loadPennTreebank(folder, 4)).toThrow(/has no ptb.train.txt/);
    mkdirSync(path.join(folder, 'other'));
    write('ptb.train.txt', 'Some other text.');
    write('ptb.valid.txt', '<unk>');
    write('ptb.test.txt', '<unk>');
    expect(() => loadPennTreebank(folder, 4)).toThrow(/ptb.train.txt has no <unk>/);
  });

  test('rows are words and those that follow', () => {
    const text = Int32Array.of(1, 2, 3, 4, 5, 6, 7);
    const rows = (most: number) => rowsOf(tf, text, { length: 2, rows: most }).map(tensor => tensor.arraySync());
    expect(rows(9)).toEqual([[[1, 2], [3, 4], [5, 6]], [[2, 3], [4, 5], [6, 7]]]); // prettier-ignore
    expect(rows(2)).toEqual([[[1, 2], [3, 4]], [[2, 3], [4, 5]]]); // prettier-ignore
    expect(rows(1)).toEqual([[[1, 2]], [[2, 3]]]);
    expect(() => rowsOf(tf, Int32Array.of(1, 2), { length: 2, rows: 1 })).toThrow(/2 words, too few for a row of 2/);
  });
});
