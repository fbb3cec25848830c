/** Which of two lists has the lower index is as good as random, so the loop has no branch for it. */
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
    // Adding −0 changes no number.
    const ofA = select<f32>(load<f32>(aValues), -0.0, a <= b);
    const ofB = select<f32>(load<f32>(bValues), -0.0, b <= a);
    store<u32>(indices, min<u32>(a, b));
    store<f32>(values, ofA + ofB);
    const aStep = <usize>(a <= b) << 2;
    const bStep = <usize>(b <= a) << 2;
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
