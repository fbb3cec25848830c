import { crc32 } from 'node:zlib';
import type { Compression } from '../compression/dgc-options';
import { sentCount, travelsDense } from '../compression/sparsity-schedule';
import { TensorCompressor } from '../compression/tensor-compressor';
import type { Pointer } from '../kernels/kernels';
import type { SharedHeap } from './shared-heap';
import type { ExchangedTensor, ExchangePlan, ExchangeResult, ExchangeStep } from './thread-protocol';

/** A variable whose gradient is exchanged. */
export interface VariableShape {
  readonly name: string;
  readonly shape: readonly number[];
}

/** What an exchange is opened with. */
export interface ExchangeInput {
  /** In the order that all ranks agree on. */
  readonly variables: readonly VariableShape[];
  readonly compression: Compression;
  readonly nesterov: boolean;
}

/** The line to its counterpart in the comm thread. */
interface ExchangeLine {
  run(step: ExchangeStep): Promise<ExchangeResult>;
  runSync(step: ExchangeStep): ExchangeResult;
  close(): void;
}

/**
 * The gradients of one model and their state (the paper's u and v), in the shared memory: three regions, in each a segment a
 * variable, aligned to 16 bytes. Between steps the memory is the user's thread's; during one it is the comm thread's.
 *
 * Costs 12 bytes a parameter, 8 for each entry that the warm-up's first stage sends, and half a byte of scratch for each
 * parameter of the largest variable.
 */
export class GradientArena {
  readonly plan: ExchangePlan;
  private readonly bytes: number;
  private readonly block: Pointer;

  constructor(
    private readonly heap: SharedHeap,
    { variables, compression, nesterov }: ExchangeInput,
    private readonly line: ExchangeLine,
  ) {
    const counts = variables.map(({ shape }) => shape.reduce((product, size) => product * size, 1));
    const offsets = counts.map(() => 0);
    let regionBytes = 0;
    counts.forEach((count, i) => {
      offsets[i] = regionBytes;
      regionBytes += align(count * 4);
    });
    const dense = variables.map(({ shape }, i) => travelsDense(compression, shape, counts[i]!));
    const entryBytes = align(
      4 * counts.reduce((sum, n, i) => sum + (dense[i] ? 0 : sentCount(n, largestDensity(compression))), 0),
    );
    const workspaceBytes = TensorCompressor.workspaceBytes(Math.max(0, ...counts.filter((_, i) => !dense[i])));
    this.bytes = 3 * regionBytes + 2 * entryBytes + workspaceBytes;
    this.block = heap.allocate(this.bytes);
    new Uint8Array(heap.memory.buffer, this.block, 3 * regionBytes).fill(0);
    const [gradients, momenta, residuals, indices] = [0, 1, 2, 3].map(region => this.block + region * regionBytes) as [
      Pointer,
      Pointer,
      Pointer,
      Pointer,
    ];
    this.plan = {
      tensors: counts.map((elementCount, i): ExchangedTensor => {
        const offset = offsets[i]!;
        const place = { gradient: gradients + offset, momentum: momenta + offset, residual: residuals + offset };
        return { elementCount, dense: dense[i]!, ...place };
      }),
      gradients: { type: 'float32', data: gradients, elementCount: regionBytes / 4 },
      compression,
      nesterov,
      indices,
      values: indices + entryBytes,
      workspace: indices + 2 * entryBytes,
      hash: crc32(JSON.stringify({ variables, compression, nesterov })),
    };
  }

  /** A variable's gradient before a step, its update after: a view that is valid until the memory grows. */
  gradient(variable: number): Float32Array {
    return this.view(this.plan.tensors[variable]!, 'gradient');
  }

  /** The variable's u, or the momentum of a dense one: a view. */
  momentum(variable: number): Float32Array {
    return this.view(this.plan.tensors[variable]!, 'momentum');
  }

  /** The variable's v: a view. */
  residual(variable: number): Float32Array {
    return this.view(this.plan.tensors[variable]!, 'residual');
  }

  /** Exchanges the gradients that were written to the arena; see {@link ExchangeResult}. */
  run(step: ExchangeStep): Promise<ExchangeResult> {
    return this.line.run(step);
  }

  /** {@link run}, asleep. */
  runSync(step: ExchangeStep): ExchangeResult {
    return this.line.runSync(step);
  }

  /** Gives the memory back. */
  close(): void {
    try {
      this.line.close();
    } finally {
      this.heap.release(this.block, this.bytes);
    }
  }

  private view({ elementCount, ...tensor }: ExchangedTensor, what: 'gradient' | 'momentum' | 'residual'): Float32Array {
    return new Float32Array(this.heap.memory.buffer, tensor[what], elementCount);
  }
}

/** The most that a schedule ever sends of a sparse tensor. */
function largestDensity(compression: Compression): number {
  if (compression.kind === 'none') return 0;
  const warmsUp = compression.warmUp === 'sparse' && compression.warmUpEpochs + compression.warmUpSteps > 0;
  return Math.max(1 - compression.sparsity, warmsUp ? 0.25 : 0);
}

function align(bytes: number): number {
  return Math.ceil(bytes / 16) * 16;
}
