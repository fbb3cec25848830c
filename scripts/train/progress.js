const WIDTH = 24;
/** How often a log gets a line, and a terminal a new bar. */
const LOG_EVERY_MS = 5_000;
const DRAW_EVERY_MS = 100;

/**
 * A callback for `model.fit` that shows a bar, the rate and the time left of the epoch, and a line after the epoch. On
 * a terminal the bar moves; in a log it is written now and then. Only rank 0 shows it. Its method `sent()` says what
 * the rank has sent.
 *
 * @param {{ rank: number, worldSize: number }} ring
 * @param {object} options
 * @param {import('../..').RingOptimizer} options.optimizer
 * @param {number} options.epochs
 * @param {number} options.steps The steps of an epoch.
 * @param {string} options.unit What is counted, such as images or words.
 * @param {number} options.unitsAStep On one rank.
 * @param {(logs: object) => string} [options.describe]
 */
function progress(ring, { optimizer, epochs, steps, unit, unitsAStep, describe = () => '' }) {
  const { stdout } = process;
  let epoch = 0;
  let startedAt = 0;
  let shownAt = 0;
  let density = 1;
  let stepsAtDensity = 0;
  const show = (text, isLast) => {
    if (ring.rank !== 0) return;
    if (stdout.isTTY) stdout.write(`\r\x1b[2K${text}${isLast ? '\n' : ''}`);
    else console.log(text);
  };
  const rate = done => (done * unitsAStep * ring.worldSize * 1000) / (performance.now() - startedAt);
  return {
    onEpochBegin(number) {
      epoch = number;
      startedAt = shownAt = performance.now();
    },
    onBatchEnd(batch) {
      if (optimizer.statistics.density !== density) stepsAtDensity = 0;
      density = optimizer.statistics.density;
      stepsAtDensity++;
      const now = performance.now();
      if (now - shownAt < (stdout.isTTY ? DRAW_EVERY_MS : LOG_EVERY_MS)) return;
      shownAt = now;
      const done = batch + 1;
      const filled = Math.round((WIDTH * done) / steps);
      const secondsLeft = ((now - startedAt) / done) * (steps - done) / 1000; // prettier-ignore
      const bar = '█'.repeat(filled) + '░'.repeat(WIDTH - filled);
      show(
        `epoch ${epoch + 1}/${epochs} ${bar} ${done}/${steps}  ${rate(done).toFixed(0)} ${unit}/s  ${clock(secondsLeft)} left`,
        false,
      );
    },
    onEpochEnd(number, logs) {
      const seconds = (performance.now() - startedAt) / 1000;
      show(
        `epoch ${number + 1}/${epochs}  ${clock(seconds)}  ${rate(steps).toFixed(0)} ${unit}/s  loss ${logs.loss.toFixed(4)}  ${describe(logs)}`,
        true,
      );
    },
    sent() {
      const { steps, bytesSent, denseBytes } = optimizer.statistics;
      const atDensity = density < 1 ? `; ${stepsAtDensity} of ${steps} steps at density ${density}` : '';
      if (bytesSent === 0) return `nothing sent (one rank)${atDensity}`;
      return `sent ${(bytesSent / 1e6).toFixed(1)} MB a rank, ${(denseBytes / bytesSent).toFixed(1)} times less than dense${atDensity}`;
    },
  };
}

/** A duration in words. */
function clock(seconds) {
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  return minutes > 0 ? `${minutes} min ${String(whole % 60).padStart(2, '0')} s` : `${whole} s`;
}

module.exports = { clock, progress };
