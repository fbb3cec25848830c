import { instantiateMeasuredKernels } from '../../src/bench/stream-floor';

test.each([0, 1, 15, 16, 17, 1023])('the loop adds g to u and u to v, over %i elements and no more', count => {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 65536, shared: true });
  const [g, u, v] = [16, 8192, 16384];
  const view = (at: number) => new Float32Array(memory.buffer, at, count + 4);
  for (const [i, at] of [g, u, v].entries()) view(at).forEach((_, j, all) => (all[j] = Math.sin(i + 3 * j)));
  const [gradient, momentum, residual] = [g, u, v].map(at => view(at).slice()) as [
    Float32Array,
    Float32Array,
    Float32Array,
  ];
  for (let i = 0; i < count; i++) {
    momentum[i]! += gradient[i]!;
    residual[i]! += momentum[i]!;
  }
  instantiateMeasuredKernels(memory).streamFloor(g, u, v, count);
  expect([g, u, v].map(view)).toEqual([gradient, momentum, residual]);
});
