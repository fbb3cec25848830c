// The features of speech: the logarithm of the power in bands that are equally wide on the mel scale.
const BANDS = 24;
const LOWEST_HERTZ = 80;
const HIGHEST_HERTZ = 7600;
/** In Hz. */
const SAMPLE_RATE = 16000;
/** Frames of 25 ms, one every 10 ms, each padded with zeros to the length of the transform. */
const FRAME = 400;
const HOP = 160;
const TRANSFORM = 512;

const mel = hertz => 2595 * Math.log10(1 + hertz / 700);
const hertzOf = mels => 700 * (10 ** (mels / 2595) - 1);

/** The middle of a band, in Hz; also of −1 and BANDS, the lowest and the highest frequency. */
function centreOf(band) {
  const low = mel(LOWEST_HERTZ);
  return hertzOf(low + ((mel(HIGHEST_HERTZ) - low) * (band + 1)) / (BANDS + 1));
}

/**
 * A function from samples to features, frame by frame, normalized. The spectra of all frames are one product with the
 * Fourier matrix, which takes the backend less time than a transform of each frame would in plain loops.
 *
 * @param {typeof import('@tensorflow/tfjs')} tf
 * @returns {(samples: Float32Array) => Float32Array}
 */
function filterBank(tf) {
  const bins = TRANSFORM / 2 + 1;
  const table = (rows, columns, value) =>
    tf.tensor2d(Float32Array.from({ length: rows * columns }, (_, i) => value(Math.floor(i / columns), i % columns)), [rows, columns]); // prettier-ignore
  const window = i => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / (FRAME - 1)); // Hann
  const fourier = [Math.cos, Math.sin].map(wave =>
    table(FRAME, bins, (i, bin) => window(i) * wave((2 * Math.PI * ((i * bin) % TRANSFORM)) / TRANSFORM)),
  );
  const spacing = (mel(HIGHEST_HERTZ) - mel(LOWEST_HERTZ)) / (BANDS + 1);
  const triangles = table(bins, BANDS, (bin, band) =>
    Math.max(0, 1 - Math.abs(mel((bin * SAMPLE_RATE) / TRANSFORM) - mel(centreOf(band))) / spacing),
  );
  return samples => {
    const count = Math.max(1, 1 + Math.floor((samples.length - FRAME) / HOP));
    const frames = new Float32Array(count * FRAME);
    for (let t = 0; t < count; t++) frames.set(samples.subarray(t * HOP, t * HOP + FRAME), t * FRAME);
    const logs = tf.tidy(() => {
      const x = tf.tensor2d(frames, [count, FRAME]);
      const [real, imaginary] = fourier.map(matrix => x.matMul(matrix).square());
      return real.add(imaginary).matMul(triangles).add(1e-6).log().dataSync();
    });
    return normalize(logs);
  };
}

/** Shifts and scales each band of an utterance, in place, to mean 0 and variance 1. */
function normalize(features) {
  const frames = features.length / BANDS;
  for (let band = 0; band < BANDS; band++) {
    let [sum, squares] = [0, 0];
    for (let at = band; at < features.length; at += BANDS) {
      sum += features[at];
      squares += features[at] ** 2;
    }
    const mean = sum / frames;
    const deviation = Math.sqrt(Math.max(squares / frames - mean ** 2, 1e-6));
    for (let at = band; at < features.length; at += BANDS) features[at] = (features[at] - mean) / deviation;
  }
  return features;
}

module.exports = { BANDS, SAMPLE_RATE, centreOf, filterBank, normalize };
