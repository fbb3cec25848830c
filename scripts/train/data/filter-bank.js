// The features of speech: the logarithm of the power in bands that are equally wide on the mel scale.
const BANDS = 24;
const LOWEST_HERTZ = 80;
const HIGHEST_HERTZ = 7600;

const mel = hertz => 2595 * Math.log10(1 + hertz / 700);
const hertzOf = mels => 700 * (10 ** (mels / 2595) - 1);

/** The middle of a band, in Hz; also of −1 and BANDS, the lowest and the highest frequency. */
function centreOf(band) {
  const low = mel(LOWEST_HERTZ);
  return hertzOf(low + ((mel(HIGHEST_HERTZ) - low) * (band + 1)) / (BANDS + 1));
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

module.exports = { BANDS, centreOf, normalize };
