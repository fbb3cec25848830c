export function scatterAdd(into: usize, indices: usize, values: usize, count: u32): void {
  for (let at: usize = 0; at < <usize>count << 2; at += 4) {
    const target = into + (<usize>load<u32>(indices + at) << 2);
    store<f32>(target, load<f32>(target) + load<f32>(values + at));
  }
}

export function clearAt(data: usize, indices: usize, count: u32): void {
  for (let at: usize = 0; at < <usize>count << 2; at += 4) {
    store<f32>(data + (<usize>load<u32>(indices + at) << 2), 0);
  }
}
