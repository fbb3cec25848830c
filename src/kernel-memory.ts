/**
 * A `WebAssembly.Memory`, by the members that gradring uses. gradring's types name this one: TypeScript knows
 * `WebAssembly` from its library `dom` alone, and a program for Node need not have that.
 */
export interface KernelMemory {
  readonly buffer: ArrayBufferLike;
  grow(pages: number): number;
}
