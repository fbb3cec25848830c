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
}
