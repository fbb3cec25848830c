import { crc32 } from 'node:zlib';
import { sharedMemory } from '../address-space';
import { methodOf } from '../compression/compression-method';
import type { Compression, EntryRoute } from '../compression/dgc-options';
import { GradringError } from '../errors';
import type { Kernels } from '../kernels/kernels';
import { align, type Pointer } from '../kernels/pointer';
import { instantiateKernels } from '../kernels/wasm-kernels';
import { collectGarbage, copyBytes, releaseMemory } from '../memory/buffers';
import type { Ticket } from '../work';
import { type ArenaLayout, type ExchangedTensor, layArenas, MAX_ARENA_BYTES, type VariableShape } from './arena-layout';
import type { ArenaPlan, ExchangePlan, ExchangeResult, ExchangeStep } from './messages';

/** What an exchange is opened with, the same on all ranks. */
export interface ExchangeInput {
  /** In the same order on all ranks. */
  readonly variables: readonly VariableShape[];
  readonly compression: Compression;
  readonly nesterov: boolean;
  /** The most that one of its memories may take. Default 4 GiB, which is the limit. */
  readonly arenaBytes?: number;
  /** Fixes the route of entries. A step that sends everything is dense in any case. */
  readonly route?: EntryRoute | undefined;
  /**
   * How many threads compress, encode and decode, with the comm thread. It changes no bit. A `Compressor` has the comm
   * thread alone, where it may keep what it likes. Default 1.
   */
  readonly threads?: number;
}

/** A variable in the memory of its arena: its gradient, its u and v, and what a compressor keeps, as views. */
interface Place extends Record<'gradient' | 'momentum' | 'residual' | 'shared', Float32Array> {
  readonly kernels: Kernels;
  readonly tensor: ExchangedTensor;
}

/** Calls the {@link GradientExchange} on the comm thread. */
interface ExchangeLine {
  start(step: ExchangeStep): Ticket<ExchangeResult>;
  conclude(applied: boolean): void;
  close(): void;
}

/**
 * An exchange as the main thread sees it: the gradients of one model and their state, in memories of their own, as many
 * arenas as needed. The main thread uses them between steps, the comm thread during a step.
 *
 * docs/architecture.md#memory says how large they are.
 */
export class ExchangeHandle {
  /** Empty when it is closed. */
  private arenas: readonly ArenaPlan[];
  /** By variable. */
  private places: readonly Place[];
  private readonly common: Omit<ExchangePlan, 'arenas'>;

  /** @throws GradringError `ERR_OUT_OF_MEMORY`, before the comm thread or another rank knows of the exchange. */
  constructor(
    { variables, compression, nesterov, arenaBytes = MAX_ARENA_BYTES, route, threads = 1 }: ExchangeInput,
    private readonly line: ExchangeLine,
  ) {
    const layouts = layArenas(variables, compression, arenaBytes);
    // All ranks must cut at the same variables. One arena is not cut.
    const cut = layouts.length > 1 ? { tensorCounts: layouts.map(({ tensors }) => tensors.length) } : {};
    const sharedLengths = layouts.flatMap(({ tensors }) => tensors.map(({ sharedLength }) => sharedLength));
    const { fileHash: compressorFile, usesThreads } = methodOf(compression);
    const shared = { variables, compression, compressorFile, nesterov, route, sharedLengths, ...cut };
    const hash = crc32(JSON.stringify(shared));
    this.common = { compression, nesterov, hash, route };
    this.arenas = layouts.map(layout => allocate(layout, usesThreads ? threads - 1 : 0));
    this.places = this.arenas.flatMap(placesIn);
  }

  /** What the comm thread needs. */
  get plan(): ExchangePlan {
    return { ...this.common, arenas: this.arenas };
  }

  /** A variable's gradient before a step, its update afterwards: a view, valid until the exchange is closed. */
  gradient(variable: number): Float32Array {
    return this.place(variable).gradient;
  }

  /**
   * Copies a variable's gradient to {@link gradient}, several times as fast as `set`.
   *
   * @param values One for each element of the variable.
   * @param isGivenAway Whether to free their memory. Then nothing else may use it, and the array is empty afterwards.
   */
  writeGradient(variable: number, values: Float32Array, isGivenAway = false): void {
    const gradient = this.gradient(variable);
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    copyBytes(new Uint8Array(gradient.buffer, gradient.byteOffset, bytes.length), bytes);
    if (isGivenAway) releaseMemory(bytes);
  }

  /** The variable's u, or the momentum of the average: a view. */
  momentum(variable: number): Float32Array {
    return this.place(variable).momentum;
  }

  /** The variable's v: a view. */
  residual(variable: number): Float32Array {
    return this.place(variable).residual;
  }

  /** What a compressor keeps of the variable, the same on all ranks: a view. Often empty. */
  shared(variable: number): Float32Array {
    return this.place(variable).shared;
  }

  /** Sum of the squares of the variable's gradient. Not finite if, and only if, some element is not. */
  sumOfSquares(variable: number): number {
    const { kernels, tensor } = this.place(variable);
    return kernels.sumOfSquares(tensor.gradient, tensor.elementCount);
  }

  /** Multiplies the variable's gradient. */
  scaleGradient(variable: number, factor: number): void {
    const { kernels, tensor } = this.place(variable);
    kernels.scale('float32', tensor.gradient, factor, tensor.elementCount);
  }

  /** Begins to exchange the gradients that were written to the arenas. */
  start(step: ExchangeStep): Ticket<ExchangeResult> {
    return this.line.start(step);
  }

  /**
   * Ends a step that failed on this rank, but not on others.
   *
   * @param applied Whether they applied an update. If so, this rank must apply it, too.
   */
  conclude(applied: boolean): void {
    this.line.conclude(applied);
  }

  /** Frees the memory, unless the caller still holds views of it. May be called twice. */
  close(): void {
    if (this.arenas.length === 0) return;
    this.arenas = [];
    this.places = [];
    try {
      this.line.close();
    } finally {
      collectGarbage();
    }
  }

  private place(variable: number): Place {
    if (this.arenas.length === 0) throw new GradringError('ERR_CLOSED', 'The exchange was closed.');
    return this.places[variable]!;
  }
}

/**
 * Allocates one memory of an exchange: for the gradients of some of a model's variables and their state (the paper's u
 * and v). It has three regions with a segment for each variable, aligned to 16 bytes. Behind them is what the comm
 * thread needs for a step.
 *
 * The memory has as many pages as the layout needs, and never grows, so views of it stay valid. It is zero at first,
 * and pages that are not touched cost nothing. It is freed when no thread holds it any more.
 *
 * @param helpers How many threads work beside the comm thread, if there is room.
 * @throws GradringError `ERR_OUT_OF_MEMORY` if the system has no room for the memory.
 */
function allocate(layout: ArenaLayout, helpers: number): ArenaPlan {
  const { helperBytes } = layout;
  const end = align(layout.bytes);
  const count = Math.min(helpers, Math.floor(Math.max(0, MAX_ARENA_BYTES - end) / helperBytes));
  const bytes = Math.min(MAX_ARENA_BYTES, end + count * helperBytes);
  return {
    ...layout,
    memory: sharedMemory(bytes, bytes, `for the ${bytes} bytes of a model's gradients and their state`),
    helperWorkspaces: Array.from({ length: count }, (_, helper) => end + helper * helperBytes),
  };
}

function placesIn({ memory, tensors }: ArenaPlan): Place[] {
  const kernels = instantiateKernels(memory);
  const view = (start: Pointer, length: number) => new Float32Array(memory.buffer, start, length);
  return tensors.map(tensor => ({
    kernels,
    tensor,
    gradient: view(tensor.gradient, tensor.elementCount),
    momentum: view(tensor.momentum, tensor.elementCount),
    residual: view(tensor.residual, tensor.elementCount),
    shared: view(tensor.shared, tensor.sharedLength),
  }));
}
