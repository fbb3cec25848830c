// The picture of what `npm start` has measured.
const { rateInWords } = require('./result');

const SIZE = { width: 850, height: 330 };
const AREA = { left: 62, right: 834, top: 20, bottom: 284 };
const STYLES = {
  alone: 'stroke="#555" stroke-dasharray="3 4"',
  dense: 'stroke="#b45309" stroke-dasharray="9 4"',
  compressed: 'stroke="#2563eb"',
};

/** Errors below this are drawn here. */
const LEAST_ERROR = 0.03;

/** An SVG image: the test error, mean over the seeds, against seconds. */
function plotOf({ gain }) {
  const { alone, dense, compressed, machines, targetAccuracy } = gain;
  const curves = { alone: alone.curve, dense: dense.curve, compressed: compressed.curve };
  const points = Object.values(curves).flat();
  const longest = Math.max(...points.map(({ seconds }) => seconds));
  const errorOf = ({ testAccuracy }) => Math.max(LEAST_ERROR, 1 - testAccuracy);
  const largest = Math.max(...points.map(errorOf));
  const x = seconds => round(AREA.left + (seconds / longest) * (AREA.right - AREA.left));
  const y = error =>
    round(AREA.bottom - (Math.log(error / LEAST_ERROR) / Math.log(largest / LEAST_ERROR)) * (AREA.bottom - AREA.top));

  const errors = [0.05, 0.1, 0.2, 0.5].filter(error => error < largest);
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500].find(each => longest / each <= 10) ?? 1000;
  const times = Array.from({ length: Math.floor(longest / step) + 1 }, (_, i) => i * step);
  const target = 1 - targetAccuracy;
  const legend = [
    ['dense', `${machines} machines, ${rateInWords(gain)}, dense`, dense],
    ['alone', 'one machine', alone],
    ['compressed', `${machines} machines, ${rateInWords(gain)}, ${compressed.method}`, compressed],
  ];
  const percent = fraction => `${round(fraction * 100)} %`;
  const timeOf = ({ secondsToTarget }) => (secondsToTarget === null ? 'never' : `${secondsToTarget.toFixed(1)} s`);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${SIZE.width} ${SIZE.height}" font-family="system-ui, sans-serif" font-size="14">`,
    `  <title>Test error against seconds. Time to ${percent(targetAccuracy)} accuracy: ${legend.map(([, name, each]) => `${name}: ${timeOf(each)}`).join('; ')}</title>`,
    `  <rect width="${SIZE.width}" height="${SIZE.height}" fill="#fff"/>`,
    `  <g stroke="#ddd">${errors.map(error => `<path d="M${AREA.left} ${y(error)}H${AREA.right}"/>`).join('')}</g>`,
    `  <path d="M${AREA.left} ${y(target)}H${AREA.right}" stroke="#111"/>`,
    '  <g fill="none" stroke-width="2.5" stroke-linejoin="round">',
    ...Object.entries(curves).map(
      ([name, curve]) =>
        `    <path ${STYLES[name]} d="M${curve.map(point => `${x(point.seconds)} ${y(errorOf(point))}`).join('L')}"/>`,
    ),
    '  </g>',
    '  <g fill="#111">',
    `    <g text-anchor="end">${errors.map(error => `<text x="${AREA.left - 8}" y="${y(error) + 5}">${percent(error)}</text>`).join('')}`,
    `      <text x="${AREA.right}" y="${y(target) - 6}">${percent(targetAccuracy)} accuracy</text></g>`,
    `    <g text-anchor="middle">${times.map(time => `<text x="${x(time)}" y="${AREA.bottom + 20}">${time}</text>`).join('')}`,
    `      <text x="${(AREA.left + AREA.right) / 2}" y="${SIZE.height - 6}">seconds</text></g>`,
    `    <text transform="translate(14 ${(AREA.top + AREA.bottom) / 2}) rotate(-90)" text-anchor="middle">test error</text>`,
    '    <g transform="translate(480 34)">',
    `      <text x="354" text-anchor="end">${percent(targetAccuracy)} after</text>`,
    ...legend.map(([name, words, each], i) => {
      const top = 24 * (i + 1);
      const line = `<path d="M0 ${top - 5}H36" stroke-width="2.5" ${STYLES[name]}/>`;
      const time = `<text x="354" y="${top}" text-anchor="end">${timeOf(each)}</text>`;
      return `      ${line}<text x="46" y="${top}">${words}</text>${time}`;
    }),
    '    </g>',
    '  </g>',
    '</svg>',
    '',
  ].join('\n');
}

const round = value => Math.round(value * 10) / 10;

module.exports = { plotOf };
