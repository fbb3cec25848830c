import type { StepArena } from '../../src/exchange/routes/route';

/** What a rank has selected of a tensor: values by index, in ascending order. */
export interface SelectedTensor {
  readonly elementCount: number;
  readonly entries: ReadonlyMap<number, number>;
}

/** An arena of tensors, as far as a reduce-scatter sees it. Its gradients are zero. */
export function arenaOf(selected: readonly SelectedTensor[]): StepArena {
  const memory = new WebAssembly.Memory({ initial: 16, maximum: 65_536, shared: true });
  let next = 64;
  const place = (elements: number) => {
    const at = next;
    next += 16 * Math.ceil(elements / 4);
    return at;
  };
  const tensors = selected.map(({ elementCount, entries }, number) => {
    const count = entries.size;
    const [indices, values, gradient] = [place(count), place(count), place(elementCount)];
    new Uint32Array(memory.buffer, indices, count).set([...entries.keys()]);
    new Float32Array(memory.buffer, values, count).set([...entries.values()]);
    return { number, elementCount, count, indices, values, gradient };
  });
  const arena: Pick<StepArena, 'memory' | 'kept'> = { memory, kept: [] };
  return { ...arena, tensors } as unknown as StepArena;
}

/** What a rank has taken back of each tensor, by element. */
export function takenBack({ tensors, kept }: StepArena): number[][] {
  const all = tensors.map(({ elementCount }) => new Array<number>(elementCount).fill(0));
  for (const { tensor, start, indices, values } of kept) {
    indices.forEach((at, i) => (all[tensors.indexOf(tensor)]![start + at]! += values[i]!));
  }
  return all;
}

/** The gradients of each tensor. */
export function gradientsOf({ memory, tensors }: StepArena): number[][] {
  return tensors.map(({ gradient, elementCount }) => [...new Float32Array(memory.buffer, gradient, elementCount)]);
}
