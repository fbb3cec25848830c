// Jest runs tests in a realm of their own, with their own Float32Array, WebAssembly and so on. Arrays that
// come from Node's own realm (worker messages, Buffers) would then fail `instanceof` in the code under test,
// as they never do in a user's program. So the test realm borrows the constructors of the main realm.
const { TestEnvironment } = require('jest-environment-node');

const SHARED = require('./shared-globals');

// Programs that tests start inherit these: their output has no colours, on a terminal and in CI as in a pipe.
delete process.env.FORCE_COLOR;
process.env.NO_COLOR = '1';

module.exports = class extends TestEnvironment {
  async setup() {
    await super.setup();
    for (const name of SHARED) this.global[name] = globalThis[name];
  }
};
