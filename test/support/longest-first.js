// The order of `npm run test:slow`. A fresh clone has no times of earlier runs, so Jest would begin with the largest
// files, and end with small ones that take minutes, while the other worker has nothing left to do.
const path = require('node:path');
const { default: Sequencer } = require('@jest/test-sequencer');

/** What takes more than some 40 s, longest first. Two that fetch the same versions of Node stand apart. */
const LONGEST = [
  ...['link-tensorflow', 'study', 'pack', 'examples', 'clusters', 'tensorflow-versions', 'soak', 'node-versions'],
  ...['elastic-losses', 'elastic-loops', 'chaos', 'start', 'other-user', 'frozen', 'ends', 'elastic-training'],
  ...['training-on-wasm', 'chaos-checker', 'public-models', 'stop', 'killed', 'docs-programs', 'conformance', 'memory'],
  ...['large-rings', 'tutorial', 'fuzz', 'processes', 'clean-build'],
];

const place = ({ path: file }) => {
  const at = LONGEST.indexOf(path.basename(file, '.test.ts'));
  return at < 0 ? LONGEST.length : at;
};

module.exports = class extends Sequencer {
  sort(tests) {
    return super.sort([...tests]).sort((a, b) => place(a) - place(b));
  }
};
