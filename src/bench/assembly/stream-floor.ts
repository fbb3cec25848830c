@inline
function addLanes(gradient: usize, momentum: usize, residual: usize): void {
  const u = f32x4.add(v128.load(momentum), v128.load(gradient));
  v128.store(momentum, u);
  v128.store(residual, f32x4.add(v128.load(residual), u));
}

export function streamFloor(gradient: usize, momentum: usize, residual: usize, elementCount: u32): void {
  const bytes = <usize>elementCount << 2;
  let at: usize = 0;
  // Sixteen elements in each iteration, like `accumulate`. With fewer, the loop itself would cost a fifth in the cache.
  for (; at < (bytes & ~63); at += 64) {
    const g = gradient + at;
    const u = momentum + at;
    const v = residual + at;
    addLanes(g, u, v);
    addLanes(g + 16, u + 16, v + 16);
    addLanes(g + 32, u + 32, v + 32);
    addLanes(g + 48, u + 48, v + 48);
  }
  for (; at < bytes; at += 4) {
    const u = load<f32>(momentum + at) + load<f32>(gradient + at);
    store<f32>(momentum + at, u);
    store<f32>(residual + at, load<f32>(residual + at) + u);
  }
}
