// Speech for a training without data: sequences of filter-bank features as a vocal tract would give them. They are not
// real, but can be learned, and are the same everywhere.
const seedrandom = require('seedrandom');
const { BANDS, centreOf, normalize } = require('./filter-bank');

/**
 * The sounds, with their formants in Hz. Those of the first ten vowels are from Peterson and Barney (1952), table II,
 * men. `to`: the formants at the end of a sound that moves. `voice`, `noise`: how loud its two sources are. `at`: the
 * middle of the noise, in Hz.
 */
const SOUNDS = [
  { name: 'i', formants: [270, 2290, 3010] },
  { name: 'ɪ', formants: [390, 1990, 2550] },
  { name: 'ɛ', formants: [530, 1840, 2480] },
  { name: 'æ', formants: [660, 1720, 2410] },
  { name: 'ɑ', formants: [730, 1090, 2440] },
  { name: 'ɔ', formants: [570, 840, 2410] },
  { name: 'ʊ', formants: [440, 1020, 2240] },
  { name: 'u', formants: [300, 870, 2240] },
  { name: 'ʌ', formants: [640, 1190, 2390] },
  { name: 'ɝ', formants: [490, 1350, 1690] },
  { name: 'aɪ', formants: [730, 1090, 2440], to: [390, 1990, 2550] },
  { name: 'aʊ', formants: [730, 1090, 2440], to: [440, 1020, 2240] },
  { name: 'ɔɪ', formants: [570, 840, 2410], to: [390, 1990, 2550] },
  { name: 'm', formants: [250, 1000, 2200], voice: 0.3 },
  { name: 'n', formants: [250, 1700, 2600], voice: 0.3 },
  { name: 'l', formants: [360, 1300, 2700], voice: 0.5 },
  { name: 'r', formants: [310, 1060, 1380], voice: 0.5 },
  { name: 'w', formants: [290, 610, 2150], voice: 0.5 },
  { name: 'j', formants: [260, 2070, 3020], voice: 0.5 },
  { name: 's', formants: [300, 1700, 2600], voice: 0, noise: 0.5, at: 6000 },
  { name: 'ʃ', formants: [300, 1700, 2600], voice: 0, noise: 0.5, at: 3200 },
  { name: 'f', formants: [300, 1000, 2300], voice: 0, noise: 0.15, at: 4500 },
  { name: 'z', formants: [300, 1700, 2600], voice: 0.2, noise: 0.4, at: 6000 },
  { name: 'v', formants: [300, 1000, 2300], voice: 0.2, noise: 0.12, at: 4500 },
];

const FEWEST_LABELS = 4;
const MOST_LABELS = 10;
/** How many frames a sound takes at a speed of 1. */
const SHORTEST = 5;
const LONGEST = 9;
/** No sound is shorter: after the model has halved the frames, two equal ones still have room for a blank. */
const FEWEST_FRAMES = 4;
/** How much of the frame before and of the frame after is in a frame, so that sounds overlap. */
const OVERLAP = 0.5;
/** Standard deviation of the noise in the logarithm of a band, and the range of the hum below it. */
const JITTER = 0.5;
const QUIETEST_HUM = 0.01;
const LOUDEST_HUM = 0.06;
const BANDWIDTHS = [90, 130, 200];
const TRAIN_VOICES = 100;

/**
 * @typedef {object} Utterance
 * @property {Float32Array} features Frame by frame, {@link BANDS} numbers each: mean 0 and variance 1 in each band.
 * @property {number} frames
 * @property {number[]} labels Numbers from 1. 0 is the blank of the loss.
 */

/**
 * Utterances of 4 to 10 sounds in random order, by several voices: with another vocal tract, speed and pitch each. The
 * voices of the test are not those of the training, and there are as many to draw from as utterances. Neighbouring
 * sounds overlap; there is noise, and a hum of its own behind each utterance.
 *
 * @param {{ trainCount: number, testCount: number, seed: number }} options
 * @returns {{ train: Utterance[], test: Utterance[], symbols: string[], source: string }}
 */
function syntheticUtterances({ trainCount, testCount, seed }) {
  const make = (part, count, voiceCount) => {
    const random = seedrandom(`${seed} ${part}`);
    const voices = Array.from({ length: voiceCount }, () => drawVoice(random));
    return Array.from({ length: count }, () => drawUtterance(voices[Math.floor(random() * voiceCount)], random));
  };
  return {
    train: make('train', trainCount, TRAIN_VOICES),
    test: make('test', testCount, testCount),
    symbols: SOUNDS.map(({ name }) => name),
    source: `synthetic utterances (no real speech) of ${SOUNDS.length} sounds`,
  };
}

const between = (random, least, most) => least + (most - least) * random();

function drawVoice(random) {
  return {
    tract: between(random, 0.85, 1.2), // formants of men, women and children differ by about this factor
    speed: between(random, 0.8, 1.35),
    pitch: between(random, 90, 250),
    tilt: between(random, -0.3, 0.3), // in the logarithm, for each doubling of the frequency
  };
}

/** @returns {Utterance} */
function drawUtterance(voice, random) {
  const count = FEWEST_LABELS + Math.floor(random() * (MOST_LABELS - FEWEST_LABELS + 1));
  const labels = Array.from({ length: count }, () => 1 + Math.floor(random() * SOUNDS.length));
  const track = overlapped(trackOf(labels, voice, random));
  const frames = track.length;
  const features = new Float32Array(frames * BANDS);
  const hum = Array.from({ length: BANDS }, () => between(random, QUIETEST_HUM, LOUDEST_HUM));
  track.forEach((state, t) => {
    for (let band = 0; band < BANDS; band++) {
      features[t * BANDS + band] =
        Math.log(powerOf(state, voice, centreOf(band)) + hum[band]) + JITTER * gaussian(random);
    }
  });
  return { features: normalize(features), frames, labels };
}

/** What the vocal tract should do in each frame: [three formants, voice, noise, place of the noise]. */
function trackOf(labels, { speed }, random) {
  const silence = [500, 1500, 2500, 0, 0, 5000];
  const pause = () => Array.from({ length: 2 + Math.floor(random() * 4) }, () => silence);
  const sounds = labels.flatMap(label => {
    const { formants, to = formants, voice = 1, noise = 0, at = 5000 } = SOUNDS[label - 1];
    const frames = Math.max(FEWEST_FRAMES, Math.round(between(random, SHORTEST, LONGEST) / speed));
    return Array.from({ length: frames }, (_, i) => {
      const passed = (i + 0.5) / frames;
      const loudness = Math.sin(Math.PI * passed); // so that two equal sounds are two
      const moved = formants.map((hertz, k) => hertz + (to[k] - hertz) * passed);
      return [...moved, voice * loudness, noise * loudness, at];
    });
  });
  return [...pause(), ...sounds, ...pause()];
}

/** Smoothed forwards, then backwards, as an articulator that is slow and prepares for the next sound. */
function overlapped(track) {
  const smooth = states => {
    let last = states[0];
    return states.map(state => (last = state.map((value, i) => value + OVERLAP * (last[i] - value))));
  };
  return smooth(smooth(track).reverse()).reverse();
}

function powerOf([f1, f2, f3, voice, noise, at], { tract, pitch, tilt }, hertz) {
  const resonance = (formant, k) => 1 / (1 + ((hertz - formant * tract) / (BANDWIDTHS[k] + hertz / 20)) ** 2) / (k + 1);
  const harmonics = 1 + 0.6 * Math.cos((2 * Math.PI * hertz) / pitch) * Math.exp(-hertz / 1000);
  const voiced = voice * harmonics * (resonance(f1, 0) + resonance(f2, 1) + resonance(f3, 2));
  const hiss = noise * Math.exp(-(((hertz - at * tract) / (0.3 * at)) ** 2));
  return (voiced + hiss) * Math.exp(tilt * Math.log2(hertz / 1000));
}

/** A normal number (Box and Muller). */
function gaussian(random) {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

module.exports = { gaussian, syntheticUtterances };
