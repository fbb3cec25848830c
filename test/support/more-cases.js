// The tests that have more cases in `npm run test:slow`, by casesOf or isSlow of cases.ts.
const TESTS = {
  checkpoint: ['save-and-load'],
  communicator: ['abort', 'call-errors', 'connect-errors', 'encryption', 'messages', 'rooted-collectives'],
  compression: ['gradient-codec', 'tensor-compressor'],
  'compression/compressors': ['compressors'],
  core: ['core'],
  exchange: ['compressors', 'gradient-exchange', 'per-host', 'several-arenas'],
  'exchange/routes': ['scatter'],
  'exchange/threads': ['tensor-threads'],
  launcher: ['cli', 'error-output', 'rank-guard', 'signals', 'typescript-loader'],
  scripts: ['start'],
  tensorflow: [
    'accumulate',
    'background',
    'best',
    'compression-reference',
    'evaluate',
    'local-steps',
    'overlap',
    'per-host',
    'reshuffle',
    'sync-batch-norm',
    'tensor-collectives',
    'uneven',
  ],
  transport: ['encrypted-links', 'lane', 'ring-transport', 'tcp-lane'],
};

module.exports = Object.entries(TESTS).flatMap(([folder, names]) =>
  names.map(name => `**/test/${folder}/${name}.test.ts`),
);
