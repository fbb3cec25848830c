import { dgc } from '../../src/compression/dgc-options';
import { GradientCodec } from '../../src/compression/gradient-codec';
import {
  LargestTreatment,
  RoundedTreatment,
  type TensorPlace,
  type TreatmentKind,
  WholeTreatment,
} from '../../src/compression/tensor-treatment';
import { methodOf } from '../../src/compression/compression-method';
import { instantiateKernels } from '../../src/kernels/wasm-kernels';
import { SharedHeap } from '../../src/memory/shared-heap';
import { random } from '../support/random';

// The promises of TensorTreatment, for every kind.

const ELEMENTS = 3000;
const STEP = {
  ...{
    density: 0.05,
    gradientScale: 0.5,
    momentumFactor: 0,
    nesterov: false,
    momentumScale: 1,
    correctsMomentum: true,
    masks: true,
  },
};
const KINDS: [string, TreatmentKind][] = [
  ['the largest', LargestTreatment],
  ['the whole', WholeTreatment],
  ['the whole, rounded', RoundedTreatment],
];

function tensorOf(kind: TreatmentKind) {
  const heap = new SharedHeap();
  const { memory } = heap;
  const kernels = instantiateKernels(memory);
  const bytes = 4 * ELEMENTS;
  const room = kind.room(ELEMENTS, STEP.density);
  const place: TensorPlace = {
    ...{ number: 0, isWhole: false, kernels, elementCount: ELEMENTS },
    ...{ gradient: heap.allocate(bytes), momentum: heap.allocate(bytes), residual: heap.allocate(bytes) },
    workspace: heap.allocate(Math.max(GradientCodec.workspaceBytes, room.workspaceBytes)),
  };
  const [indices, values] = [heap.allocate(room.indexBytes), heap.allocate(room.valueBytes)];
  const view = (what: 'gradient' | 'momentum' | 'residual') => new Float32Array(memory.buffer, place[what], ELEMENTS);
  for (const what of ['momentum', 'residual'] as const) view(what).fill(0);
  const write = (seed: number, scale = 1) => {
    const next = random(seed);
    view('gradient').forEach((_, i, all) => (all[i] = Math.fround((next() - 0.5) * scale)));
  };
  const treat = (step = STEP) => new kind(place, step, indices, values);
  return { memory, room, view, write, treat, codec: new GradientCodec(kernels, memory, 'int8', place.workspace) };
}

describe.each(KINDS)('%s', (_, kind) => {
  test('room is asked for in units of 16 bytes', () => {
    for (const bytes of Object.values(kind.room(ELEMENTS, 0.05))) expect(bytes % 16).toBe(0);
  });

  test('what is sent and what is kept is what was accumulated', () => {
    const { write, view, treat, codec } = tensorOf(kind);
    const isRounded = kind !== WholeTreatment; // the codec rounds, and nothing would be kept
    write(1);
    const accumulated = view('gradient').map(value => value * STEP.gradientScale);
    const treatment = treat();
    expect(treatment.compress()).toBe(true);
    if (isRounded) codec.encode([treatment]);
    treatment.expand();
    const sent = view('gradient').slice();
    treatment.settle(false);
    expect(sent.some(value => value !== 0)).toBe(true);
    expect(sent.map((value, i) => value + view('residual')[i]!)).toEqual(accumulated);
    expect(view('residual').some(value => value !== 0)).toBe(isRounded);
  });

  test('a step that is run again sends the same, and accumulates nothing', () => {
    const { write, view, treat } = tensorOf(kind);
    const sentBy = (how: 'compress' | 'selectAgain') => {
      write(2);
      const treatment = treat();
      treatment[how]();
      treatment.expand();
      return [[...view('gradient')], [...view('residual')]];
    };
    const first = sentBy('compress');
    expect(sentBy('selectAgain')).toEqual(first);
  });

  test('what overflows when it is accumulated begins anew, and momentum that all ranks share stays', () => {
    const { write, view, treat } = tensorOf(kind);
    write(3);
    view('residual').fill(3.4e38);
    view('momentum').fill(1);
    view('gradient').fill(3.4e38);
    const overflows = kind !== WholeTreatment; // it accumulates nothing
    expect(treat({ ...STEP, gradientScale: 1, momentumFactor: 0.5 }).compress()).toBe(!overflows);
    if (overflows) expect(view('residual').every(value => value === 0)).toBe(true);
    expect(view('momentum').every(value => value === (kind === LargestTreatment ? 0 : 1))).toBe(true);
  });

  test('a momentum that all ranks share is corrected and applied after averaging, another is not', () => {
    const { view, treat } = tensorOf(kind);
    view('momentum').fill(8);
    view('gradient').fill(1);
    const treatment = treat({ ...STEP, momentumFactor: 0.5, momentumScale: 0.25 });
    expect(treatment.applyMomentum()).toBe(true);
    expect(view('gradient')[7]).toBe(kind === LargestTreatment ? 1 : 0.5 * 0.25 * 8 + 1);
    view('momentum').fill(3.4e38);
    view('gradient').fill(3.4e38);
    expect(treatment.applyMomentum()).toBe(kind === LargestTreatment);
    treatment.forget();
    for (const what of ['momentum', 'residual'] as const) {
      expect(view(what).every(value => value === 0)).toBe(true);
    }
  });
});

test.each([
  [false, 0.01, 'float16', LargestTreatment],
  [false, 1, 'float16', WholeTreatment],
  [true, 0.01, 'float16', RoundedTreatment],
  [true, 1, 'float16', RoundedTreatment],
  [true, 0.01, 'float32', WholeTreatment],
] as const)('sent whole: %s, density %d, values as %s: %p', (isWhole, density, values, kind) => {
  expect(methodOf(dgc({ sparsity: 0.99, values })).treatment(isWhole, density)).toBe(kind);
});
