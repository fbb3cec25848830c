// Speech in the format of LibriSpeech, for speech.js --data-dir: <speaker>/<chapter>/<id>.flac, or .wav, and the words
// in <speaker>/<chapter>/<speaker>-<chapter>.trans.txt. The labels are letters.
const { existsSync, readdirSync, readFileSync } = require('node:fs');
const path = require('node:path');
const { findPackage } = require('../../../dist/find-package');
const { framesAfter } = require('../speech-model');
const { DataError } = require('./files');
const { BANDS, SAMPLE_RATE, filterBank } = require('./filter-bank');

const SYMBOLS = [...` 'ABCDEFGHIJKLMNOPQRSTUVWXYZ`];
/** One speaker of so many is for testing. */
const TEST_SPEAKERS = 10;

/**
 * Reads utterances. Every tenth speaker is for testing, at least one.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @param {string} directory
 * @param {object} options
 * @param {number} options.trainCount How many to read at most; of the chapters in the order of their names.
 * @param {number} options.testCount
 * @param {(i: number) => boolean} options.isOwn Which ones this rank needs. Of the others only the labels are read.
 * @returns {Promise<ReturnType<typeof import('./utterances').syntheticUtterances>>}
 */
async function loadLibriSpeech(tf, directory, { trainCount, testCount, isOwn }) {
  const speakers = foldersOf(directory);
  const transcripts = speakers.map(speaker =>
    foldersOf(path.join(directory, speaker)).flatMap(chapter => transcriptOf(directory, speaker, chapter)),
  );
  const parts = { train: [], test: [] };
  transcripts
    .filter(lines => lines.length > 0)
    .forEach((lines, i) => parts[i % TEST_SPEAKERS === 0 ? 'test' : 'train'].push(...lines));
  if (parts.train.length === 0) {
    throw new DataError(
      `${directory} has no <speaker>/<chapter>/<speaker>-<chapter>.trans.txt of two speakers, one to train on and one to test.`,
    );
  }
  const featuresOf = filterBank(tf);
  const read = async (lines, count) => {
    /** @type {import('./utterances').Utterance[]} Of other ranks they have only labels. */
    const utterances = [];
    for (const [i, { file, labels }] of lines.slice(0, count).entries()) {
      const heard = isOwn(i) ? await readUtterance(file, labels, featuresOf) : undefined;
      utterances.push({ labels, ...heard });
    }
    return utterances;
  };
  return {
    train: await read(parts.train, trainCount),
    test: await read(parts.test, testCount),
    symbols: SYMBOLS,
    source: `speech in ${directory}`,
  };
}

function foldersOf(directory) {
  if (!existsSync(directory)) throw new DataError(`There is no folder ${directory}.`);
  return readdirSync(directory, { withFileTypes: true })
    .filter(entry => entry.isDirectory())
    .map(({ name }) => name)
    .sort();
}

/** The utterances of a chapter: where the sound is, without its extension, and the labels. */
function transcriptOf(directory, speaker, chapter) {
  const folder = path.join(directory, speaker, chapter);
  const transcript = path.join(folder, `${speaker}-${chapter}.trans.txt`);
  if (!existsSync(transcript)) return [];
  const lines = readFileSync(transcript, 'utf8').split('\n').filter(line => line.trim() !== ''); // prettier-ignore
  return lines.map(line => {
    const [id, ...words] = line.trim().split(/\s+/);
    const labels = [...words.join(' ')].map(letter => SYMBOLS.indexOf(letter) + 1);
    if (labels.includes(0)) throw new DataError(`${transcript}: the words of ${id} are not of A–Z and '.`);
    return { file: path.join(folder, id), labels };
  });
}

async function readUtterance(file, labels, featuresOf) {
  const features = featuresOf(await readSound(file));
  const frames = features.length / BANDS;
  const needed = labels.filter((label, i) => label === labels[i - 1]).length + labels.length;
  if (framesAfter(frames) < needed) throw new DataError(`${file} is too short for its ${labels.length} letters.`);
  return { features, frames };
}

/**
 * @param {string} file Without its extension.
 * @returns {Promise<Float32Array>} Samples from −1 to 1.
 */
async function readSound(file) {
  if (existsSync(`${file}.wav`)) return parseWav(`${file}.wav`, readFileSync(`${file}.wav`));
  if (existsSync(`${file}.flac`)) return decodeFlac(`${file}.flac`);
  throw new DataError(`There is no ${file}.flac, nor .wav.`);
}

/** Reads a RIFF file of 16-bit PCM, one channel. @param {string} file @param {Buffer} data */
function parseWav(file, data) {
  const refuse = words => new DataError(`${file} ${words}.`);
  if (data.toString('latin1', 0, 4) !== 'RIFF' || data.toString('latin1', 8, 12) !== 'WAVE')
    throw refuse('is no WAV file');
  let isChecked = false;
  for (let at = 12; at + 8 <= data.length;) {
    const name = data.toString('latin1', at, at + 4);
    const size = data.readUInt32LE(at + 4);
    const chunk = data.subarray(at + 8, at + 8 + size);
    if (chunk.length < size) throw refuse('is cut short');
    if (name === 'fmt ' && size >= 16) {
      const [format, channels, rate, bits] = [chunk.readUInt16LE(0), chunk.readUInt16LE(2), chunk.readUInt32LE(4), chunk.readUInt16LE(14)]; // prettier-ignore
      if (format !== 1 || bits !== 16) throw refuse('is not of 16-bit PCM');
      checkSound(file, channels, rate);
      isChecked = true;
    }
    if (name === 'data' && isChecked) {
      return Float32Array.from({ length: size >> 1 }, (_, i) => chunk.readInt16LE(2 * i) / 32768);
    }
    at += 8 + size + (size % 2);
  }
  throw refuse('has no sound');
}

function checkSound(file, channels, rate) {
  if (channels === 1 && rate === SAMPLE_RATE) return;
  throw new DataError(
    `${file} has ${channels} channels at ${rate} Hz; the model takes one channel at ${SAMPLE_RATE} Hz.`,
  );
}

let decoder;

async function decodeFlac(file) {
  decoder ??= await flacDecoder(file);
  const data = readFileSync(file);
  // The decoder misses a short last frame, as of silence, unless bytes follow it.
  const padded = Buffer.concat([data, Buffer.alloc(16)]);
  const { channelData, sampleRate, errors } = await decoder.decodeFile(padded);
  // It passes over damaged frames without an error. The header has the number of samples, or 0.
  const isWhole = ({ length }) => [length, 0].includes(data.readUIntBE(21, 5) % 2 ** 36);
  if (errors.length > 0 || channelData.length === 0 || !isWhole(channelData[0]))
    throw new DataError(`${file} is damaged, or no FLAC file.`);
  checkSound(file, channelData.length, sampleRate);
  return channelData[0].map(sample => Math.round(sample * 32767) / 32768); // the same as of a WAV file
}

/** A package of its own, because few need it. */
async function flacDecoder(file) {
  const { file: own, refused } = findPackage('@wasm-audio-decoders/flac', [__filename]);
  const isOwn = own !== undefined && own === require.resolve('@wasm-audio-decoders/flac');
  const { FLACDecoder } = await (isOwn ? import('@wasm-audio-decoders/flac') : Promise.reject()).catch(() => {
    throw new DataError(
      `${refused === undefined ? '' : `${refused}. `}${file} needs a decoder: npm install @wasm-audio-decoders/flac. Or convert the files to .wav: flac -d *.flac`,
    );
  });
  const made = new FLACDecoder();
  await made.ready;
  return made;
}

module.exports = { loadLibriSpeech, readSound };
