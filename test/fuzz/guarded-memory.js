const { demand } = require('./refusal');

const PAGE_BYTES = 65_536;
const PATTERN = 0xa5;

/**
 * A memory that shows writes outside of a workspace: this lies at the very end, where wasm traps whatever is read or
 * written past it, and before it, for at least a third of a page, is a pattern.
 */
class GuardedMemory {
  /** @param {number} workspaceBytes A multiple of 16. */
  constructor(workspaceBytes) {
    const pages = Math.ceil((workspaceBytes + PAGE_BYTES / 3) / PAGE_BYTES);
    this.memory = new WebAssembly.Memory({ initial: pages, maximum: 65_536, shared: true });
    this.end = pages * PAGE_BYTES;
    this.workspace = this.end - workspaceBytes;
    this.inside = new Uint8Array(this.memory.buffer, this.workspace);
    this.before = Buffer.from(this.memory.buffer, 0, this.workspace).fill(PATTERN);
    this.expected = Buffer.alloc(this.workspace, PATTERN);
  }

  /**
   * Overwrites the workspace, so that what an earlier input left in it is gone.
   *
   * @param {Uint8Array} content As long as the workspace. Filling shared memory would take ten times as long as
   *   copying.
   */
  refill(content) {
    this.inside.set(content);
  }

  /** @throws Violation if anything before the workspace was written to. */
  check() {
    demand(this.before.equals(this.expected), 'Memory outside of the workspace was written to.');
  }
}

module.exports = { GuardedMemory };
