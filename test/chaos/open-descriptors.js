const { existsSync, readdirSync } = require('node:fs');
const { report } = require('./rank-report');

/** Of this process; 0 where the system does not tell. */
function openDescriptors() {
  return existsSync('/proc/self/fd') ? readdirSync('/proc/self/fd').length : 0;
}

/** Steps after which a ring that was formed anew has settled. */
const SETTLING_STEPS = 2;

/** Tells after each step of a ring that has settled how many files are open. */
class DescriptorWatch {
  steps = 0;

  /** @param {{ generation: number, worldSize: number }} ring */
  look({ generation, worldSize }) {
    this.steps = generation === this.generation ? this.steps + 1 : 1;
    this.generation = generation;
    if (this.steps > SETTLING_STEPS) report({ descriptors: openDescriptors(), generation, worldSize });
  }
}

module.exports = { DescriptorWatch, openDescriptors };
