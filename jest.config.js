// Tests are TypeScript, the product is what `npm run build` made: `../src/x` is typed from the source
// and runs from `dist/x`, so that worker threads and wasm files are found where a user has them.
module.exports = {
  testEnvironment: '<rootDir>/test/support/environment.js',
  setupFilesAfterEnv: ['<rootDir>/test/support/equality-testers.js'],
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  testPathIgnorePatterns: ['<rootDir>/test/slow/'], // see jest.slow.config.js
  transform: { '\\.ts$': ['ts-jest', { tsconfig: '<rootDir>/test/tsconfig.json' }] },
  moduleNameMapper: { '^(?:\\.\\./)+src/(.*)$': '<rootDir>/dist/$1' },
  // A look-up of a global through the realm of the tests takes some hundred times as long as that of a variable, and
  // the slow twins of kernels make millions of them. No test replaces these, so each module gets them as variables.
  sandboxInjectedGlobals: [...require('./test/support/shared-globals'), 'Math', 'Number', 'Infinity'],
  testTimeout: 120_000,
  // Three for two cores: many tests wait for heartbeats, timeouts and the ends of processes.
  maxWorkers: 3,
};
