/** The bits of −0, which changes no number that it is added to. */
const NO_CHANGE: u32 = 0x80000000;

/** A number, or −0 where the mask is 0. */
@inline
function valueIf(mask: u32, at: usize): f32 {
  return reinterpret<f32>((load<u32>(at) & mask) | (NO_CHANGE & ~mask));
}

/**
 * Which of two lists has the lower index is as good as random, and a branch could not be predicted. So the loop has
 * masks: engines may compile `select` to a branch.
 */
export function addEntries(
  aIndices: usize,
  aValues: usize,
  aCount: u32,
  bIndices: usize,
  bValues: usize,
  bCount: u32,
  bStart: u32,
  indices: usize,
  values: usize,
): u32 {
  const start = indices;
  const aEnd = aIndices + (<usize>aCount << 2);
  const bEnd = bIndices + (<usize>bCount << 2);
  while (aIndices < aEnd && bIndices < bEnd) {
    const a = load<u32>(aIndices);
    const b = load<u32>(bIndices) - bStart;
    const takesA = 0 - <u32>(a <= b);
    const takesB = 0 - <u32>(b <= a);
    store<u32>(indices, b ^ ((a ^ b) & takesA));
    store<f32>(values, valueIf(takesA, aValues) + valueIf(takesB, bValues));
    const aStep = <usize>(takesA & 4);
    const bStep = <usize>(takesB & 4);
    aIndices += aStep;
    aValues += aStep;
    bIndices += bStep;
    bValues += bStep;
    indices += 4;
    values += 4;
  }
  const aLeft = aEnd - aIndices;
  memory.copy(indices, aIndices, aLeft);
  memory.copy(values, aValues, aLeft);
  indices += aLeft;
  values += aLeft;
  memory.copy(values, bValues, bEnd - bIndices);
  for (; bIndices < bEnd; bIndices += 4, indices += 4) store<u32>(indices, load<u32>(bIndices) - bStart);
  return <u32>((indices - start) >> 2);
}
