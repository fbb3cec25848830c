// What `npm start` reports: from the results of digits.js to one result, and its table.
const os = require('node:os');
const { ranksAlike } = require('../train/ranks-alike');

const sum = values => values.reduce((total, value) => total + value, 0);
const mean = values => sum(values) / values.length;

/**
 * One result of several runs of digits.js: one process alone, then the ranks over paced links with the first seed, then
 * perhaps over fast links with the other seeds.
 *
 * @param {any[]} results
 */
function resultOf([alone, paced, ...fast], { linkRate, seeds, targetAccuracy }) {
  const { ranks, backend, epochs, parameters } = paced;
  const trainingsOf = method => [paced, ...fast].flatMap(result => withRate(result[method].trainings, result.linkRate));
  const summary = trainings => {
    const { seconds, curve } = trainings.find(({ seed }) => seed === seeds[0]);
    return {
      accuracy: mean(trainings.map(({ accuracy }) => accuracy)),
      bytesSentPerRank: mean(trainings.map(({ bytesSent }) => bytesSent)),
      seconds,
      secondsToTarget: curve.find(({ testAccuracy }) => testAccuracy >= targetAccuracy)?.seconds ?? null,
      trainings,
    };
  };
  const dense = summary(trainingsOf('dense'));
  const dgc = summary(trainingsOf('dgc'));
  const ratios = dgc.trainings.flatMap(({ ratioAfterWarmUp }) => ratioAfterWarmUp ?? []);
  return {
    version: 1,
    machine: { cpu: os.cpus()[0]?.model ?? 'unknown', cores: os.availableParallelism(), node: process.version },
    ...{ backend, ranks, linkRate, seeds, epochs, targetAccuracy, parameters },
    alone: summary(withRate(alone.dense.trainings, null)),
    dense,
    dgc,
    compressionRatio: dense.bytesSentPerRank / dgc.bytesSentPerRank,
    compressionRatioAfterWarmUp: ratios.length > 0 ? mean(ratios) : null, // null: the whole training is warm-up
    replicasIdentical: [dense, dgc].every(each => fewestAlike(each) === ranks),
  };
}

/** In how many ranks, at least, a training ended with the weights of rank 0. */
const fewestAlike = ({ trainings }) => Math.min(...trainings.map(ranksAlike));

const withRate = (trainings, linkRate) => trainings.map(training => ({ linkRate, ...training }));

/** The lines of the table that `npm start` ends with. */
function tableOf(result) {
  const { alone, dense, dgc, ranks, seeds, targetAccuracy, machine } = result;
  const percent = (fraction, digits) => `${(fraction * 100).toFixed(digits)} %`;
  const megabytes = ({ bytesSentPerRank }) => `${(bytesSentPerRank / 1e6).toFixed(1)} MB`;
  const times = factor => (factor === null ? '–' : `${factor.toFixed(1)}×`);
  const seconds = value => (value === null ? 'never' : `${value.toFixed(1)} s`);
  const all = [alone, dense, dgc];
  const row = (name, ...cells) => `${name.padEnd(32)}${cells.map(cell => cell.padStart(14)).join('')}`;
  return [
    `${' '.repeat(32)}${'one process'.padStart(14)}${`${ranks} ranks, ${rateInWords(result)}`.padStart(28)}`,
    row(`${result.parameters.toLocaleString('en')} parameters`, 'alone', 'dense', 'DGC 99.9 %'),
    row(`test accuracy, mean of ${seeds.length}`, ...all.map(({ accuracy }) => percent(accuracy, 2))),
    row('sent by each rank', '–', megabytes(dense), megabytes(dgc)),
    row('compression ratio', '–', '1×', times(result.compressionRatio)),
    row('compression ratio after warm-up', '–', '1×', times(result.compressionRatioAfterWarmUp)),
    row(
      `time to ${percent(targetAccuracy, 1)} accuracy`,
      ...all.map(({ secondsToTarget }) => seconds(secondsToTarget)),
    ),
    row('time of the training', ...all.map(each => seconds(each.seconds))),
    row('ranks with the same weights', '–', ...[dense, dgc].map(each => `${fewestAlike(each)} of ${ranks}`)),
    '',
    `The times are of seed ${seeds[0]}. All ${ranks} ranks share the ${machine.cores} cores of this machine. Only their links are slow:`,
    'each rank holds back what it sends, as gradring run --link-rate does.',
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
