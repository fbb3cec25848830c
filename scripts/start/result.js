// What `npm start` reports: from the results of digits.js to one result, and its table.
const os = require('node:os');
const { ranksAlike } = require('../train/ranks-alike');

const sum = values => values.reduce((total, value) => total + value, 0);
const mean = values => sum(values) / values.length;

/**
 * One result of several runs of digits.js.
 *
 * @param {object} runs
 * @param {any} runs.alone One machine, all seeds.
 * @param {any} runs.paced Two machines over paced links, the first seed.
 * @param {any} [runs.fast] Two machines over fast links, the other seeds.
 * @param {any} runs.oneOfFour The small network on one rank.
 * @param {any} runs.four The same on four.
 * @param {object} options
 * @param {string} options.linkRate
 * @param {number[]} options.seeds
 * @param {number} options.targetAccuracy
 * @param {{ name: string, words: string }} options.method Of the machines that compress.
 */
function resultOf({ alone, paced, fast, oneOfFour, four }, { linkRate, seeds, targetAccuracy, method }) {
  const machines = paced.ranks;
  const trainingsOf = name => [paced, fast].flatMap(run => (run === undefined ? [] : trainingsIn(run, name)));
  const summary = trainings => {
    const { seconds, steps, curve: timed } = trainings.find(({ seed }) => seed === seeds[0]);
    // One seed reaches the target by chance an epoch earlier or later.
    const curve = timed.map(({ epoch, seconds }, i) => {
      return { epoch, seconds, testAccuracy: mean(trainings.map(({ curve }) => curve[i].testAccuracy)) };
    });
    return {
      secondsToTarget: secondsTo(targetAccuracy, curve),
      accuracy: mean(trainings.map(({ accuracy }) => accuracy)),
      bytesSentPerStep: mean(trainings.map(({ bytesSent, steps }) => bytesSent / steps)),
      secondsPerStep: seconds / steps,
      seconds,
      curve,
      trainings,
    };
  };
  const [single, dense, compressed] = [trainingsIn(alone, 'dense'), trainingsOf('dense'), trainingsOf(method.name)].map(summary); // prettier-ignore
  const timesFaster = ({ secondsToTarget: seconds }) =>
    single.secondsToTarget === null || seconds === null ? null : single.secondsToTarget / seconds;
  const gain = {
    ...{ machines, linkRate, parameters: paced.parameters, epochs: paced.epochs, seeds, targetAccuracy },
    alone: single,
    dense,
    compressed: {
      method: method.words,
      compressionRatio: dense.bytesSentPerStep / compressed.bytesSentPerStep,
      ...compressed,
    },
    speedup: timesFaster(compressed),
    denseSpeedup: timesFaster(dense),
  };
  const smallSummary = trainings => ({
    accuracy: mean(trainings.map(({ accuracy }) => accuracy)),
    bytesSentPerRank: mean(trainings.map(({ bytesSent }) => bytesSent)),
    seconds: mean(trainings.map(({ seconds }) => seconds)),
    trainings,
  });
  const small = {
    alone: smallSummary(trainingsIn(oneOfFour, 'dense')),
    dense: smallSummary(trainingsIn(four, 'dense')),
    dgc: smallSummary(trainingsIn(four, 'dgc')),
  };
  return {
    version: 2,
    machine: { cpu: os.cpus()[0]?.model ?? 'unknown', cores: os.availableParallelism(), node: process.version },
    backend: paced.backend,
    gain,
    ...{ ranks: four.ranks, seeds: four.seeds, epochs: four.epochs, parameters: four.parameters },
    ...small,
    compressionRatio: four.compressionRatio,
    compressionRatioAfterWarmUp: four.compressionRatioAfterWarmUp,
    replicasIdentical:
      [dense, compressed].every(each => fewestAlike(each) === machines) &&
      [small.dense, small.dgc].every(each => fewestAlike(each) === four.ranks),
  };
}

/** The trainings of a method in a result of digits.js, each with the rate of its links. */
const trainingsIn = (run, name) => run[name].trainings.map(training => ({ linkRate: run.linkRate, ...training }));

/** In how many ranks, at least, a training ended with the weights of rank 0. */
const fewestAlike = ({ trainings }) => Math.min(...trainings.map(ranksAlike));

/** When a curve reaches an accuracy, on a line between the points before and after; null for never. */
function secondsTo(accuracy, curve) {
  const at = curve.findIndex(({ testAccuracy }) => testAccuracy >= accuracy);
  if (at === -1) return null;
  const after = curve[at];
  const before = curve[at - 1];
  if (before === undefined) return after.seconds;
  const part = (accuracy - before.testAccuracy) / (after.testAccuracy - before.testAccuracy);
  return before.seconds + part * (after.seconds - before.seconds);
}

const percent = (fraction, digits) => `${(fraction * 100).toFixed(digits)} %`;
const megabytes = bytes => `${(bytes / 1e6).toFixed(bytes < 1e5 ? 3 : 1)} MB`;
const times = (factor, digits = 1) => (factor === null ? '–' : `${factor.toFixed(digits)}×`);
const inSeconds = (value, digits = 1) => (value === null ? 'never' : `${value.toFixed(digits)} s`);

/** The lines of the tables that `npm start` ends with. */
function tableOf(result) {
  const { gain, machine } = result;
  const { alone, dense, compressed, machines } = gain;
  const row = (name, ...cells) => `${name.padEnd(30)}${cells.map(cell => cell.padStart(14)).join('')}`;
  const each = (name, cellOf) => row(name, ...[alone, dense, compressed].map(cellOf));
  const small = [result.alone, result.dense, result.dgc];
  return [
    `${' '.repeat(30)}${'one machine'.padStart(14)}${`${machines} machines, ${rateInWords(gain)}`.padStart(28)}`,
    row(`${gain.parameters.toLocaleString('en')} parameters`, 'alone', 'dense', compressed.method),
    each(`test accuracy, mean of ${gain.seeds.length}`, ({ accuracy }) => percent(accuracy, 1)),
    row('sent by each in a step', '–', megabytes(dense.bytesSentPerStep), megabytes(compressed.bytesSentPerStep)),
    each('time of a step', ({ secondsPerStep }) => inSeconds(secondsPerStep, 2)),
    each(`time to ${Number((100 * gain.targetAccuracy).toFixed(2))} % accuracy`, ({ secondsToTarget }) =>
      inSeconds(secondsToTarget),
    ),
    row('as fast as one machine', '1×', times(gain.denseSpeedup, 2), times(gain.speedup, 2)),
    row('machines with the same weights', '–', ...[dense, compressed].map(one => `${fewestAlike(one)} of ${machines}`)),
    '',
    row(`${result.parameters.toLocaleString('en')} parameters, ${result.ranks} ranks`, 'alone', 'dense', 'DGC 99.9 %'),
    row('test accuracy', ...small.map(({ accuracy }) => percent(accuracy, 2))),
    row('sent by each rank', '–', ...[result.dense, result.dgc].map(one => megabytes(one.bytesSentPerRank))),
    row('compression ratio', '–', '1×', times(result.compressionRatio)),
    row('ranks with the same weights', '–', ...[result.dense, result.dgc].map(one => `${fewestAlike(one)} of ${result.ranks}`)), // prettier-ignore
    '',
    `Each "machine" is a process on one of the ${machine.cores} cores of this one. Its links are paced, as with`,
    `gradring run --link-rate. The times are of seed ${gain.seeds[0]}, without evaluation.`,
  ];
}

/** `100 Mbit/s` for `100mbit`. */
function rateInWords({ linkRate }) {
  return linkRate.replace(
    /^([\d.]+)(.)bit$/,
    (_, number, unit) => `${number} ${unit.replace(/[mg]/, each => each.toUpperCase())}bit/s`,
  );
}

module.exports = { rateInWords, resultOf, tableOf };
