import { lowRank } from '../../compression/compressors/custom-compression';
import { chooseRank, type LowRankNumbers, messageBitsOf } from '../../compression/compressors/low-rank';
import { methodOf } from '../../compression/compression-method';
import type { ValueFormat } from '../../compression/value-format';
import type { TensorMessage } from '../../exchange/routes/divide-messages';
import { instantiateKernels } from '../../kernels/wasm-kernels';
import { SharedHeap } from '../../memory/shared-heap';
import { measureCodec } from '../codec-measurement';
import type { SparseCase } from '../collectives/collective-benchmark';
import { GradientSource } from '../gradient-source';
import { elementCountOf, type TensorShape } from '../models/tensor-shape';
import type { ClusterLoad } from './cluster-model';

/** The tensors of a model, and how DGC sends their gradients. */
export interface Subject {
  readonly tensors: readonly TensorShape[];
  readonly density: number;
  readonly values: ValueFormat;
}

/** Counts what a step of DGC sends: all headers, the payload and its framing. */
export function loadOf({ tensors, density, values }: Subject): ClusterLoad {
  const heap = new SharedHeap();
  const sourceLength = Math.max(...tensors.map(elementCountOf));
  const source = new GradientSource('normal', sourceLength, SEED);
  const training = { steps: 3, source, sourceLength, seed: SEED + 1 };
  const measured = { model: tensors, format: values, density };
  const sizes = measureCodec(heap, instantiateKernels(heap.memory), measured, training);
  const { parameters, sparseEntries, denseEntries, wireBytes, denseValueBytes } = sizes;
  const dgc = {
    whole: { elements: denseEntries, entries: denseEntries, payloadBytes: denseValueBytes },
    others: {
      elements: parameters - denseEntries,
      entries: sparseEntries,
      payloadBytes: wireBytes - denseValueBytes,
    },
  };
  return { elements: parameters, dgc, lowRank: lowRankMessages(tensors) };
}

/** The rank and the step that lowRank() takes for a model. */
export function lowRankNumbers(tensors: readonly TensorShape[]): Required<LowRankNumbers> {
  const { step } = lowRank().options as unknown as LowRankNumbers;
  const large = tensors.filter(tensor => !isSmall(tensor));
  return { rank: chooseRank(large.map(({ shape }) => shape), step), step }; // prettier-ignore
}

function lowRankMessages(tensors: readonly TensorShape[]): TensorMessage[] {
  const { rank, step } = lowRankNumbers(tensors);
  return tensors.map(tensor => ({
    elements: elementCountOf(tensor),
    bits: messageBitsOf(tensor.shape, isSmall(tensor) ? 0 : rank, step),
  }));
}

function isSmall(tensor: TensorShape): boolean {
  return methodOf(lowRank()).sendsWhole(tensor.shape);
}

const SEED = 1;

/**
 * A gradient whose payload is as long as that of a model, but which is compressed and decoded in little time. Rings of
 * more ranks than processors show with it how long payloads travel: the compression of a large model, by turns on few
 * processors, would take longer than that.
 *
 * @param wholeElements The length of a second tensor, which the dense ring carries. 0: none.
 */
export function standInFor(
  payloadBytes: number,
  wholeElements = 0,
): { readonly elements: number; readonly sparse: SparseCase } {
  const sparse = { density: 0.25, values: 'float32', way: wholeElements > 0 ? 'mixed' : 'sparse' } as const;
  const matrix = (elements: number): TensorShape => ({ name: 'gradient', shape: [1, elements] });
  const elementsOf = (payload: number): number => Math.max(1, Math.round(payload / bytesAnElement));
  let bytesAnElement = 0.9; // a quarter of the elements, each with some 28 bits
  for (let i = 0; i < 2; i++) {
    const elements = elementsOf(payloadBytes);
    bytesAnElement = loadOf({ ...sparse, tensors: [matrix(elements)] }).dgc.others.payloadBytes / elements;
  }
  const elements = elementsOf(payloadBytes);
  if (wholeElements === 0) return { elements, sparse };
  const tensors = [matrix(elements), { name: 'whole', shape: [wholeElements] }];
  return { elements: elements + wholeElements, sparse: { ...sparse, tensors } };
}
