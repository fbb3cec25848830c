// The tests that have more cases in `npm run test:slow`, by casesOf or isSlow of cases.ts.
const TESTS = {
  checkpoint: ['save-and-load'],
  communicator: ['abort', 'call-errors', 'connect-errors', 'encryption', 'messages', 'rooted-collectives'],
  compression: ['tensor-compressor'],
  'compression/compressors': ['compressors'],
  core: ['core'],
  exchange: ['compressors', 'gradient-exchange', 'several-arenas'],
  'exchange/routes': ['scatter'],
  launcher: ['cli', 'rank-guard', 'signals'],
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
  transport: ['encrypted-links', 'lane', 'tcp-lane'],
};

module.exports = Object.entries(TESTS).flatMap(([folder, names]) =>
  names.map(name => `**/test/${folder}/${name}.test.ts`),
);
