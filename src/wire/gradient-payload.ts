import * as flatbuffers from 'flatbuffers';
import { checked, checkedRoot, protocolError } from './frame';
import { Encoding } from './generated/encoding';
import { GradientPayload as PayloadTable } from './generated/gradient-payload';
import { TensorEntry } from './generated/tensor-entry';

/** What each tensor costs on the wire beside its entries. */
export const TENSOR_ENTRY_BYTES = TensorEntry.sizeOf();

/** What the receiver of a payload knows of each tensor before it reads a byte. */
export interface ExpectedTensor {
  readonly elementCount: number;
  /** Dense tensors come as all their elements, the others as (index, value) pairs. */
  readonly dense: boolean;
}

/**
 * One rank's contribution to a step, as streams of bytes. Tensors follow each other in the streams in the order
 * of the tensor table.
 */
export interface GradientPayload {
  /** Entries of each tensor: pairs where sparse, elements where dense. */
  readonly counts: readonly number[];
  /** uint32 indices of the sparse tensors, ascending within each. */
  readonly indices: Uint8Array;
  /** float32 values of the sparse tensors. */
  readonly values: Uint8Array;
  /** float32 elements of the dense tensors. */
  readonly dense: Uint8Array;
}

/** Packs a payload. The streams are copied: the caller may reuse their memory at once. */
export function encodeGradientPayload(payload: GradientPayload, tensors: readonly ExpectedTensor[]): Uint8Array {
  const { indices, values, dense } = payload;
  const builder = new flatbuffers.Builder(
    indices.length + values.length + dense.length + tensors.length * TENSOR_ENTRY_BYTES + 128,
  );
  const streams = [indices, values, dense].map(stream => createStream(builder, stream));
  PayloadTable.startTensorsVector(builder, tensors.length);
  for (let t = tensors.length - 1; t >= 0; t--) {
    TensorEntry.createTensorEntry(builder, payload.counts[t]!, tensors[t]!.dense ? Encoding.Dense : Encoding.Raw);
  }
  const entries = builder.endVector();
  PayloadTable.startGradientPayload(builder);
  PayloadTable.addTensors(builder, entries);
  PayloadTable.addIndices(builder, streams[0]!);
  PayloadTable.addValues(builder, streams[1]!);
  PayloadTable.addDense(builder, streams[2]!);
  builder.finish(PayloadTable.endGradientPayload(builder));
  return builder.asUint8Array();
}

/** The payload of a rank whose gradient held NaN or infinity in the tensor of that number. */
export function encodeNonFinite(tensor: number): Uint8Array {
  const builder = new flatbuffers.Builder(64);
  PayloadTable.startTensorsVector(builder, 0);
  const entries = builder.endVector();
  PayloadTable.startGradientPayload(builder);
  PayloadTable.addTensors(builder, entries);
  PayloadTable.addNonFiniteTensor(builder, tensor);
  builder.finish(PayloadTable.endGradientPayload(builder));
  return builder.asUint8Array();
}

/**
 * Unpacks a payload and checks it against the tensor table: counts, stream lengths, every index within its tensor and
 * ascending, every value finite. The streams of the result are views of `bytes`.
 *
 * @returns the payload, or the number of the tensor that was not finite at the origin.
 * @throws GradringError `ERR_PROTOCOL` for anything else.
 */
export function decodeGradientPayload(
  bytes: Uint8Array,
  tensors: readonly ExpectedTensor[],
): GradientPayload | { readonly nonFiniteTensor: number } {
  const table = checkedRoot(bytes, 'gradient payload', buffer => PayloadTable.getRootAsGradientPayload(buffer));
  return checked('gradient payload', () => {
    const nonFiniteTensor = table.nonFiniteTensor();
    if (nonFiniteTensor !== -1) {
      if (nonFiniteTensor < 0 || nonFiniteTensor >= tensors.length)
        throw protocolError('blames a tensor that does not exist');
      return { nonFiniteTensor };
    }
    if (table.tensorsLength() !== tensors.length) {
      throw protocolError(`holds ${table.tensorsLength()} tensors where ${tensors.length} are expected`);
    }
    const counts: number[] = [];
    let pairs = 0;
    let denseElements = 0;
    tensors.forEach(({ elementCount, dense }, t) => {
      const entry = table.tensors(t)!;
      if (entry.bb_pos < 0 || entry.bb_pos + TENSOR_ENTRY_BYTES > bytes.length)
        throw new RangeError('tensor entries cut short');
      const count = entry.count();
      if (
        entry.encoding() !== (dense ? Encoding.Dense : Encoding.Raw) ||
        (dense ? count !== elementCount : count > elementCount)
      ) {
        throw protocolError(`holds ${count} entries for tensor ${t} of ${elementCount} elements`);
      }
      counts.push(count);
      if (dense) denseElements += count;
      else pairs += count;
    });
    const payload = {
      counts,
      indices: within(bytes, table.indicesArray()),
      values: within(bytes, table.valuesArray()),
      dense: within(bytes, table.denseArray()),
    };
    if (
      payload.indices.length !== pairs * 4 ||
      payload.values.length !== pairs * 4 ||
      payload.dense.length !== denseElements * 4
    ) {
      throw protocolError('holds streams whose lengths do not fit its counts');
    }
    checkEntries(payload, tensors);
    return payload;
  });
}

/** A stream, if it is a part of the message: the view could as well be of what lies beside it in the same buffer. */
function within(bytes: Uint8Array, stream: Uint8Array | null): Uint8Array {
  if (stream === null) return new Uint8Array(0);
  const start = stream.byteOffset - bytes.byteOffset;
  if (start < 0 || start + stream.length > bytes.length) throw new RangeError('stream cut short');
  return stream;
}

function createStream(builder: flatbuffers.Builder, bytes: Uint8Array): flatbuffers.Offset {
  builder.prep(16, bytes.length); // the schema's force_align, which createByteVector does not know of
  return builder.createByteVector(bytes);
}

function checkEntries(payload: GradientPayload, tensors: readonly ExpectedTensor[]): void {
  const { counts } = payload;
  const indices = words(payload.indices);
  let position = 0;
  tensors.forEach(({ elementCount, dense }, t) => {
    if (dense) return;
    let next = 0;
    for (const end = position + counts[t]!; position < end; position++) {
      const index = indices[position]!;
      if (index < next || index >= elementCount) throw protocolError(`holds a bad index ${index} for tensor ${t}`);
      next = index + 1;
    }
  });
  if (!allFinite(payload.values) || !allFinite(payload.dense)) throw protocolError('holds values that are not finite');
}

/** A stream as uint32, copied only where its place in the message is not aligned. */
function words(stream: Uint8Array): Uint32Array {
  const aligned = stream.byteOffset % 4 === 0 ? stream : stream.slice();
  return new Uint32Array(aligned.buffer, aligned.byteOffset, stream.length / 4);
}

/** Whether all float32 of a stream are finite: their exponent bits are not all set. */
function allFinite(stream: Uint8Array): boolean {
  const bits = words(stream);
  for (let i = 0; i < bits.length; i++) if ((bits[i]! & 0x7f800000) === 0x7f800000) return false;
  return true;
}
