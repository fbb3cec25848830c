export function scatterAdd(into: usize, indices: usize, values: usize, count: u32): void {
  for (let at: usize = 0; at < <usize>count << 2; at += 4) {
    const target = into + (<usize>load<u32>(indices + at) << 2);
    store<f32>(target, load<f32>(target) + load<f32>(values + at));
  }
}

export function scatterAddBelow(into: usize, indices: usize, values: usize, from: u32, until: u32, limit: u32): f64 {
  let entry = from;
  for (; entry < until; entry++) {
    const at = <usize>entry << 2;
    const index = load<u32>(indices + at);
    if (index >= limit) break;
    const target = into + (<usize>index << 2);
    store<f32>(target, load<f32>(target) + load<f32>(values + at));
  }
  return entry;
}

@inline
function settleOne(momentum: usize, residual: usize, indices: usize, values: usize, entry: u32): void {
  const at = <usize>entry << 2;
  const target = <usize>load<u32>(indices + at) << 2;
  const value = load<f32>(values + at);
  if (value != 0) store<f32>(momentum + target, 0);
  store<f32>(residual + target, load<f32>(residual + target) - value);
}

export function settle(momentum: usize, residual: usize, indices: usize, values: usize, count: u32): void {
  // From four places of the list at a time. If the entries are dense, each place is a separate stream for the
  // prefetcher, and a core reads more streams faster.
  const quarter = count >> 2;
  for (let entry: u32 = 0; entry < quarter; entry++) {
    settleOne(momentum, residual, indices, values, entry);
    settleOne(momentum, residual, indices, values, entry + quarter);
    settleOne(momentum, residual, indices, values, entry + 2 * quarter);
    settleOne(momentum, residual, indices, values, entry + 3 * quarter);
  }
  for (let entry = quarter << 2; entry < count; entry++) settleOne(momentum, residual, indices, values, entry);
}

export function settleApplied(
  momentum: usize,
  residual: usize,
  update: usize,
  indices: usize,
  values: usize,
  count: u32,
): void {
  for (let at: usize = 0; at < <usize>count << 2; at += 4) {
    const target = <usize>load<u32>(indices + at) << 2;
    if (load<f32>(update + target) != 0) store<f32>(momentum + target, 0);
    store<f32>(residual + target, load<f32>(residual + target) - load<f32>(values + at));
  }
}
