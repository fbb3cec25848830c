import { type DecodedEntries, GradientCodec } from '../../src/compression/gradient-codec';
import type { CodedTensor } from '../../src/compression/gradient-streams';
import { VALUE_FORMATS, type ValueFormat } from '../../src/compression/value-format';
import type { Kernels } from '../../src/kernels/kernels';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import { decodeGradientPayload, type ExpectedTensor } from '../../src/wire/gradient-payload';
import { GuardedMemory } from './guarded-memory';
import { demand, refusalOf } from './refusal';
import { KernelTrace } from './traced-kernels';

// Looked up once: every look-up of a global is slow in Jest's realm.
const { imul } = Math;

const BLOCK_ENTRIES = 1024;
/** No block of values takes fewer: a code, and one value of log4. */
const LEAST_BLOCK_BITS = 6;
/** A block goes through so many kernels at most: three for its indices, three for its values. */
const KERNELS_A_BLOCK = 6;

const INFINITY_BITS = 0x7f800000;

/** What is in the workspace before. */
const ZEROS = new Uint8Array(GradientCodec.workspaceBytes);
const ONES = new Uint8Array(GradientCodec.workspaceBytes).fill(0xff);

/** What came of a payload. */
export interface Checked {
  /** 'accepted', 'not finite at the origin', or why it was refused. */
  readonly outcome: string;
  /** A hash of the entries that were visited. */
  readonly digest: number;
}

/**
 * Decodes gradient payloads from strangers as a step does, and sees to it that they are refused with `ERR_PROTOCOL` or
 * correct, and do no harm in either case:
 *
 * - the entries that are visited are in order, ascending, within their tensor, finite, and after success `count` a
 *   tensor;
 * - nothing outside of the codec's workspace is written to, nothing past its end is read;
 * - the work is bounded by the bytes, whatever numbers they hold;
 * - what comes out depends on the bytes alone, not on what was in the workspace before: replicas must stay the same.
 */
export class PayloadChecker {
  readonly trace = new KernelTrace();
  private readonly guarded = new GuardedMemory(GradientCodec.workspaceBytes);
  private readonly codecs: ReadonlyMap<ValueFormat, GradientCodec>;

  constructor(makeKernels: (memory: WebAssembly.Memory) => Kernels = instantiateKernels) {
    const { memory, workspace } = this.guarded;
    const kernels = this.trace.over(makeKernels(memory));
    this.codecs = new Map(VALUE_FORMATS.map(format => [format, new GradientCodec(kernels, memory, format, workspace)]));
  }

  /**
   * Decodes a message.
   *
   * @param message Best with other bytes around it in its buffer, which must not be seen.
   * @throws Violation if any of the above does not hold.
   */
  check(message: Uint8Array, format: ValueFormat, tensors: readonly ExpectedTensor[]): Checked {
    const first = this.decode(message, format, tensors, ZEROS);
    if (this.trace.steps === 0) return first; // refused before anything was decoded
    const second = this.decode(message, format, tensors, ONES);
    demand(
      first.outcome === second.outcome && first.digest === second.digest,
      `The workspace's old content matters: ${first.outcome}, then ${second.outcome}.`,
    );
    return first;
  }

  private decode(
    message: Uint8Array,
    format: ValueFormat,
    tensors: readonly ExpectedTensor[],
    workspaceBefore: Uint8Array,
  ): Checked {
    this.guarded.refill(workspaceBefore);
    this.trace.restart();
    const visitor = new Visitor(this.guarded);
    let outcome: string;
    try {
      outcome = this.decodeWith(visitor, message, format, tensors);
    } catch (error) {
      outcome = refusalOf(error);
    }
    this.guarded.check();
    return { outcome, digest: visitor.digest };
  }

  private decodeWith(
    visitor: Visitor,
    message: Uint8Array,
    format: ValueFormat,
    tensors: readonly ExpectedTensor[],
  ): string {
    const payload = decodeGradientPayload(message, format, tensors, tensors.length + 2);
    if ('nonFiniteTensor' in payload) {
      demand(isCount(payload.nonFiniteTensor, tensors.length + 1), 'A tensor is blamed that does not exist.');
      return 'not finite at the origin';
    }
    const { counts, streams } = payload;
    demand(counts.length === tensors.length, 'There are not as many counts as tensors.');
    const coded = tensors.map(({ elementCount, count }, t) => {
      demand(isCount(counts[t], elementCount) && counts[t] === (count ?? counts[t]), 'A count is out of range.');
      return { elementCount, count: counts[t] };
    });
    for (const stream of [streams.indices, streams.values])
      demand(isPart(stream, message), 'A stream is not of the message.');
    visitor.expect(coded);
    try {
      this.codecs.get(format)!.decode(streams, coded, entries => visitor.visit(entries));
    } finally {
      const blocks = Math.floor((8 * streams.values.length) / LEAST_BLOCK_BITS) + 1;
      const most = blocks * KERNELS_A_BLOCK * BLOCK_ENTRIES + 8 * streams.indices.length;
      demand(this.trace.steps <= most, `${this.trace.steps} steps for ${message.length} bytes.`);
    }
    visitor.finish();
    return 'accepted';
  }
}

/** Looks at decoded entries. */
class Visitor {
  digest = 0;
  private tensors: readonly CodedTensor[] = [];
  private tensor = 0;
  private seen = 0;
  private previous = -1;
  private readonly words: Uint32Array;
  private readonly workspace: number;
  private readonly end: number;

  constructor({ memory, workspace, end }: GuardedMemory) {
    this.words = new Uint32Array(memory.buffer);
    this.workspace = workspace;
    this.end = end;
  }

  expect(tensors: readonly CodedTensor[]): void {
    this.tensors = tensors;
    this.skipComplete();
  }

  /** To the next tensor of which something is still to come. */
  private skipComplete(): void {
    while (this.tensor < this.tensors.length && this.seen === this.tensors[this.tensor].count) {
      this.tensor++;
      this.seen = 0;
      this.previous = -1;
    }
  }

  visit({ tensor, count, first, indices, values }: DecodedEntries): void {
    const { elementCount, count: expected } = this.tensors[this.tensor] ?? { elementCount: 0, count: 0 };
    demand(tensor === this.tensor && first === this.seen, 'Entries come out of order.');
    demand(
      count > 0 && count <= BLOCK_ENTRIES && this.seen + count <= expected,
      'There are more entries than counted.',
    );
    this.seen += count;
    const { words } = this;
    let { digest } = this;
    const from = this.wordOf(values, count);
    for (let i = from; i < from + count; i++) {
      if ((words[i] & INFINITY_BITS) === INFINITY_BITS) demand(false, 'A value is not finite.');
      digest = imul(digest ^ words[i], 0x01000193);
    }
    demand((indices === undefined) === (expected === elementCount), 'Indices are there where all is sent, or are not.');
    if (indices !== undefined) {
      const at = this.wordOf(indices, count);
      for (let i = at; i < at + count; i++) {
        if (words[i] <= this.previous) demand(false, 'Indices do not ascend.');
        this.previous = words[i];
        digest = imul(digest ^ words[i], 0x01000193);
      }
      demand(this.previous < elementCount, 'An index is past the end of its tensor.');
    }
    this.digest = digest;
    this.skipComplete();
  }

  finish(): void {
    demand(this.tensor === this.tensors.length, 'There are fewer entries than counted.');
  }

  private wordOf(pointer: number, count: number): number {
    const inside = pointer >= this.workspace && pointer + 4 * count <= this.end && pointer % 4 === 0;
    demand(inside, 'A pointer is outside of the workspace.');
    return pointer / 4;
  }
}

export function isCount(value: unknown, most: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most;
}

/** Whether a view lies within another; an empty one of its own does, too. */
function isPart(view: Uint8Array, whole: Uint8Array): boolean {
  const start = view.byteOffset - whole.byteOffset;
  return view.length === 0 || (view.buffer === whole.buffer && start >= 0 && start + view.length <= whole.length);
}
