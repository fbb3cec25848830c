import { demand } from './refusal';

const PAGE_BYTES = 65_536;
const PATTERN = 0xa5;

/**
 * A memory that shows writes outside of a workspace: this lies at the very end, where wasm traps whatever is read or
 * written past it, and before it, for at least a third of a page, is a pattern.
 */
export class GuardedMemory {
  readonly memory: WebAssembly.Memory;
  /** Where the workspace begins. */
  readonly workspace: number;
  /** Where the workspace and the memory end. */
  readonly end: number;
  private readonly inside: Uint8Array;
  private readonly before: Buffer;
  private readonly expected: Buffer;

  /** @param workspaceBytes A multiple of 16. */
  constructor(workspaceBytes: number) {
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
   * @param content As long as the workspace. Filling shared memory would take ten times as long as
   *   copying.
   */
  refill(content: Uint8Array): void {
    this.inside.set(content);
  }

  /** @throws Violation if anything before the workspace was written to. */
  check(): void {
    demand(this.before.equals(this.expected), 'Memory outside of the workspace was written to.');
  }
}
