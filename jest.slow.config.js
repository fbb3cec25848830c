// The tests that take minutes, behind `npm run test:slow`.
module.exports = {
  ...require('./jest.config'),
  testPathIgnorePatterns: [],
  testMatch: ['**/slow/*.test.ts'],
};
