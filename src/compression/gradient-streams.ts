import { malformed } from './bit-stream';
import { MAGNITUDE_BITS, type ValueFormat } from './value-format';

/** What both the sender and the receivers know of a tensor in a step. */
export interface CodedTensor {
  readonly elementCount: number;
  /** How many of its elements are sent. If all of them are, no indices are written. */
  readonly count: number;
}

/** The entries of all tensors as bits: docs/wire-format.md. */
export interface GradientStreams {
  readonly indices: Uint8Array;
  readonly values: Uint8Array;
  /** For each {@link Section} but the last, in order: where it ends in the indices, and where in the values. */
  readonly sectionEnds: readonly number[];
}

/**
 * Some of the tensors, one after the other. They begin at a whole byte of both streams, and the payload says where. So
 * each section can be encoded, and decoded, by a thread of its own.
 */
export interface Section {
  readonly number: number;
  /** How many sections there are. */
  readonly of: number;
  /** The numbers of its tensors: `from` to `until` − 1. */
  readonly from: number;
  readonly until: number;
}

/** The fewest elements of a section, and the most sections: what their ends take is below 0.4 % of a payload. */
const LEAST_ELEMENTS = 2 ** 20;
const MOST_SECTIONS = 16;

/** Divides tensors into at least one section, all of about the same size. All ranks divide them alike. */
export function sectionsOf(tensors: readonly { readonly elementCount: number }[]): Section[] {
  const total = tensors.reduce((sum, { elementCount }) => sum + elementCount, 0);
  const least = Math.max(LEAST_ELEMENTS, total / MOST_SECTIONS);
  const ends: number[] = [];
  let [elements, left] = [0, total];
  for (const [i, { elementCount }] of tensors.entries()) {
    elements += elementCount;
    left -= elementCount;
    if (elements < least || left < least) continue;
    ends.push(i + 1);
    elements = 0;
  }
  ends.push(tensors.length);
  return ends.map((until, number) => ({ number, of: ends.length, from: ends[number - 1] ?? 0, until }));
}

/** The streams of one section. */
export type SectionStreams = Pick<GradientStreams, 'indices' | 'values'>;

/** @throws ERR_PROTOCOL if the streams have other sections. */
export function streamsOfSection(streams: GradientStreams, { number, of }: Section): SectionStreams {
  const { indices, values, sectionEnds } = streams;
  if (sectionEnds.length !== 2 * (of - 1)) throw malformed('has other sections than its tensors');
  const part = (stream: Uint8Array, which: 0 | 1): Uint8Array => {
    const start = number === 0 ? 0 : sectionEnds[2 * (number - 1) + which]!;
    const end = number === of - 1 ? stream.length : sectionEnds[2 * number + which]!;
    if (start > end || end > stream.length) throw malformed('has a section that ends where it cannot');
    return stream.subarray(start, end);
  };
  return { indices: part(indices, 0), values: part(values, 1) };
}

/** The streams of all sections, from those of each, in order. */
export function joinSections(sections: readonly SectionStreams[]): GradientStreams {
  const ends = [0, 0];
  const sectionEnds = sections.slice(0, -1).flatMap(({ indices, values }) => {
    ends[0]! += indices.length;
    ends[1]! += values.length;
    return [...ends];
  });
  return {
    indices: Buffer.concat(sections.map(({ indices }) => indices)),
    values: Buffer.concat(sections.map(({ values }) => values)),
    sectionEnds,
  };
}

/** About how many bits one of a tensor's largest values takes, measured on normal gradients at densities up to 0.25. */
const LARGEST_BITS: Record<ValueFormat, number> = { float32: 24, float16: 11, bfloat16: 8, int8: 6, log4: 3.5 };

/**
 * About how many bits a tensor's entries will take. All ranks must get the same number, because they choose by it how
 * the bytes travel. So it depends on what all ranks know, and is plain arithmetic, without logarithms.
 */
export function expectedBits({ elementCount, count }: CodedTensor, format: ValueFormat): number {
  if (count === elementCount) return count * (MAGNITUDE_BITS[format] + 1);
  // Rice's code with p = ⌊log₂ of the mean gap⌋ takes p + 1 bits and a quotient of 1.5 on average; a bitmap n bits.
  const gapBits = 31 - Math.clz32(elementCount / count) + 2;
  return Math.min(count * gapBits, elementCount) + count * LARGEST_BITS[format];
}
