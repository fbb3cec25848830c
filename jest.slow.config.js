// The tests that take minutes, behind `npm run test:slow`.
process.env.TEST_CASES = 'others'; // see test/support/cases.ts

module.exports = {
  ...require('./jest.config'),
  testPathIgnorePatterns: [],
  testMatch: ['**/slow/*.test.ts', ...require('./test/support/more-cases')],
  testSequencer: '<rootDir>/test/support/longest-first.js',
};
