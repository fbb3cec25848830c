import { GradientSource } from '../../src/bench/gradient-source';
import { layStep, trainSteps } from '../../src/bench/training-step';
import { SharedHeap } from '../../src/memory/shared-heap';
import { dgc } from '../../src/compression/dgc-options';
import { GradientCodec } from '../../src/compression/gradient-codec';
import type { ValueFormat } from '../../src/compression/value-format';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';

const MODEL = [
  { name: 'large', shape: [50, 60] },
  { name: 'vector', shape: [2000] },
  { name: 'small', shape: [10, 10] },
  { name: 'other', shape: [3, 3, 200] },
];
const LENGTHS = [3000, 2000, 100, 1800];
const MOMENTUM_FACTOR = Math.fround(0.9);

interface Gradient {
  values: Float32Array;
  scale: number;
}

/** Runs the steps, and tells what each tensor's last step sends, and the gradients that all its steps had. */
function train(values: ValueFormat, steps: number) {
  const heap = new SharedHeap();
  const { memory } = heap;
  const kernels = instantiateKernels(memory);
  const compression = dgc({ sparsity: 0.99, warmUpSteps: 0, values });
  const { bytes } = layStep(MODEL, compression, 0);
  const block = heap.allocate(bytes);
  const after = heap.allocate(64);
  new Uint8Array(memory.buffer, block, bytes).fill(0x55); // What is there before must not matter.
  new Uint8Array(memory.buffer, after, 64).fill(0x55);
  const layout = layStep(MODEL, compression, block);
  const gradients: Gradient[] = [];
  const source = new GradientSource('normal', 3000, 1);
  const write = source.write.bind(source);
  source.write = (into, start) => {
    write(into, start);
    gradients.push({ values: into.slice(), scale: NaN });
  };
  const recorded = {
    ...kernels,
    accumulate: (...[step, gathering]: Parameters<typeof kernels.accumulate>) => {
      gradients.at(-1)!.scale = step.gradientScale;
      return kernels.accumulate(step, gathering);
    },
    scale: (...[type, data, factor, count]: Parameters<typeof kernels.scale>) => {
      if (Number.isNaN(gradients.at(-1)!.scale)) gradients.at(-1)!.scale = factor;
      return kernels.scale(type, data, factor, count);
    },
  };
  const codec = new GradientCodec(kernels, memory, values, layout.workspace);
  trainSteps({ memory, kernels: recorded, codec }, layout, { steps, source, sourceLength: 3000, seed: 7 });
  expect(new Uint8Array(memory.buffer, after, 64).every(byte => byte === 0x55)).toBe(true);
  return {
    gradients: MODEL.map((_, t) => gradients.slice(t * steps, (t + 1) * steps)),
    tensors: layout.tensors,
    sent: layout.tensors.map(({ count, indices, values, isWhole }) => ({
      indices: isWhole ? undefined : Array.from(new Uint32Array(memory.buffer, indices, count)),
      values: Array.from(new Float32Array(memory.buffer, values, count)),
    })),
  };
}

/** Algorithm 1 of the paper, without clipping. */
function deepGradientCompression(gradients: readonly Gradient[], count: number) {
  const length = gradients[0]!.values.length;
  const u = new Float32Array(length);
  const v = new Float32Array(length);
  let sent: { indices: number[]; values: number[] } = { indices: [], values: [] };
  for (const { values, scale } of gradients) {
    for (let i = 0; i < length; i++) {
      u[i] = Math.fround(MOMENTUM_FACTOR * u[i]!) + Math.fround(values[i]! * Math.fround(scale));
      v[i]! += u[i]!;
    }
    const indices = Array.from(v.keys())
      .sort((a, b) => Math.abs(v[b]!) - Math.abs(v[a]!))
      .slice(0, count)
      .sort((a, b) => a - b);
    sent = { indices, values: indices.map(i => v[i]!) };
    for (const i of indices) u[i] = v[i] = 0;
  }
  return sent;
}

test('large tensors are sparse; vectors and small ones travel whole', () => {
  const { tensors } = train('float32', 1);
  expect(tensors.map(({ elementCount }) => elementCount)).toEqual(LENGTHS);
  expect(tensors.map(({ isWhole }) => isWhole)).toEqual([false, true, true, false]);
  expect(tensors.map(({ count }) => count)).toEqual([30, 2000, 100, 18]);
});

test.each([1, 2, 5])('what step %i sends of sparse tensors is what the algorithm says', steps => {
  const { gradients, sent } = train('float32', steps);
  expect(sent[0]).toEqual(deepGradientCompression(gradients[0]!, 30));
  expect(sent[3]).toEqual(deepGradientCompression(gradients[3]!, 18));
});

test('of those that are sent whole it is the gradient, and what was lost before', () => {
  const lastOf = ({ gradients }: ReturnType<typeof train>) =>
    gradients[1]!
      .slice(-1)
      .map(({ values, scale }) => Array.from(values, value => Math.fround(value * Math.fround(scale))))[0]!;
  const exact = train('float32', 3);
  expect(exact.sent[1]!.values).toEqual(lastOf(exact));
  const lossy = train('int8', 3);
  const last = lastOf(lossy);
  const kept = lossy.sent[1]!.values.map((value, i) => Math.abs(value - last[i]!));
  // Half a step of 1/127 of the largest, which error feedback makes a little larger.
  const largest = Math.max(...last.map(Math.abs));
  expect(Math.max(...kept)).toBeGreaterThan(0);
  expect(Math.max(...kept)).toBeLessThan((1.5 / 2 / 127) * largest);
});

test('each tensor has its own scale, each step its own gradient', () => {
  const { gradients } = train('float16', 2);
  expect(new Set(gradients.map(([first]) => first!.scale)).size).toBe(4);
  for (const [first, second] of gradients) {
    expect(second!.scale).toBe(first!.scale);
    expect(second!.values).not.toEqual(first!.values);
  }
});
